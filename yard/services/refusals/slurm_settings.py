"""The custom settings of Slurm that AWS PCS takes, as its user guide lists them for each level."""

from __future__ import annotations

_CLUSTERS = """
    AccountingStorageEnforce AccountingStorageTRES AccountingStoreFlags AuthAltParameters CliFilterParameters
    CliFilterPlugins CommunicationParameters DefMemPerCPU Epilog EnforcePartLimits FairShareDampeningFactor
    FirstJobId HealthCheckInterval HealthCheckNodeState HealthCheckProgram JobRequeue LaunchParameters
    Licenses MetricsType MinJobAge OverTimeLimit PreemptExemptTime PreemptMode PreemptParameters PreemptType
    PriorityCalcPeriod PriorityDecayHalfLife PriorityFavorSmall PriorityFlags PriorityMaxAge
    PriorityUsageResetPeriod PriorityWeightAge PriorityWeightAssoc PriorityWeightFairshare
    PriorityWeightJobSize PriorityWeightPartition PriorityWeightQOS PriorityWeightTRES Prolog PrologFlags
    RequeueExit RequeueExitHold SchedulerParameters SelectTypeParameters SrunPortRange TaskEpilog
    TaskPluginParam TaskProlog TrackWCKey UnkillableStepProgram UnkillableStepTimeout
"""
_NODE_GROUPS = "CpuSpecList Features Gres MemSpecLimit Parameters RealMemory Sockets Weight"
_QUEUES = """
    AllowAccounts AllowQos Default DefaultTime DenyAccounts DenyQos Exclusive ExclusiveUser GraceTime MaxTime
    OverSubscribe OverTimeLimit PowerDownOnIdle PreemptMode PriorityJobFactor PriorityTier QOS
    TRESBillingWeights
"""
OF_CLUSTERS, OF_NODE_GROUPS, OF_QUEUES = _CLUSTERS.split(), _NODE_GROUPS.split(), _QUEUES.split()
