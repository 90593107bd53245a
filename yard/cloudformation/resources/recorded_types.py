"""The types of which the yard only keeps the record: checked against CloudFormation's schema, and no more.

recorded.py makes them. No service of the yard knows one, and nothing that it describes happens. To add
one: its name below. What the yard can do something behind is a provider in the folder of its service instead.
"""

from __future__ import annotations

from collections.abc import Mapping

# By service, so that one line is one service.
RECORDED: Mapping[str, str] = {
    "APS": "Workspace RuleGroupsNamespace Scraper",
    "AmazonMQ": "Broker",
    "ApiGateway": "Account Authorizer BasePathMapping Deployment DomainName Method Model RequestValidator"
    " Resource RestApi Stage UsagePlan UsagePlanKey ApiKey GatewayResponse VpcLink",
    "ApiGatewayV2": "Api Authorizer Deployment DomainName Integration Route Stage VpcLink ApiMapping",
    "AppRunner": "Service AutoScalingConfiguration VpcConnector",
    "ApplicationAutoScaling": "ScalableTarget ScalingPolicy",
    "Athena": "WorkGroup NamedQuery DataCatalog",
    "AutoScaling": "WarmPool",
    "Backup": "BackupPlan BackupSelection BackupVault",
    "Batch": "ConsumableResource QuotaShare ServiceEnvironment",
    "Budgets": "BudgetsAction",
    "CE": "AnomalyMonitor AnomalySubscription CostCategory",
    "CertificateManager": "Certificate",
    "Chatbot": "SlackChannelConfiguration",
    "CloudFront": "CachePolicy CloudFrontOriginAccessIdentity Distribution Function OriginAccessControl"
    " OriginRequestPolicy ResponseHeadersPolicy KeyGroup PublicKey",
    "CloudFormation": "StackSet WaitCondition",
    "CloudTrail": "Trail EventDataStore",
    "CloudWatch": "AnomalyDetector InsightRule MetricStream",
    "CodeBuild": "ReportGroup SourceCredential",
    "CodeCommit": "Repository",
    "CodeDeploy": "Application DeploymentConfig DeploymentGroup",
    "CodePipeline": "Pipeline Webhook",
    "CodeStarConnections": "Connection",
    "Cognito": "IdentityPool IdentityPoolRoleAttachment UserPool UserPoolClient UserPoolDomain UserPoolGroup"
    " UserPoolIdentityProvider UserPoolResourceServer UserPoolUser",
    "Config": "AggregationAuthorization ConfigRule ConfigurationAggregator ConfigurationRecorder"
    " ConformancePack DeliveryChannel RemediationConfiguration",
    "DLM": "LifecyclePolicy",
    "DMS": "Endpoint ReplicationInstance ReplicationSubnetGroup ReplicationTask",
    "DataPipeline": "Pipeline",
    "DataSync": "Agent LocationEFS LocationFSxLustre LocationS3 Task",
    "DocDB": "DBCluster DBInstance DBSubnetGroup DBClusterParameterGroup",
    "DirectoryService": "MicrosoftAD SimpleAD",
    "DynamoDB": "GlobalTable Table",
    "EC2": "CapacityReservation CapacityReservationFleet CarrierGateway ClientVpnAuthorizationRule"
    " ClientVpnEndpoint ClientVpnRoute ClientVpnTargetNetworkAssociation CustomerGateway"
    " GatewayRouteTableAssociation Host InstanceConnectEndpoint IPAM IPAMAllocation IPAMPool IPAMPoolCidr"
    " IPAMResourceDiscovery IPAMResourceDiscoveryAssociation IPAMScope NetworkInsightsAnalysis"
    " NetworkInsightsPath RouteServer RouteServerAssociation RouteServerEndpoint RouteServerPeer"
    " RouteServerPropagation SecurityGroupVpcAssociation SnapshotBlockPublicAccess SubnetCidrReservation"
    " TrafficMirrorFilter TrafficMirrorFilterRule TrafficMirrorSession TrafficMirrorTarget TransitGateway"
    " TransitGatewayConnect TransitGatewayMulticastDomain TransitGatewayPeeringAttachment"
    " TransitGatewayVpcAttachment VerifiedAccessEndpoint VerifiedAccessGroup VerifiedAccessInstance"
    " VerifiedAccessTrustProvider VPCBlockPublicAccessExclusion VPCBlockPublicAccessOptions"
    " TransitGatewayAttachment TransitGatewayRoute TransitGatewayRouteTable"
    " TransitGatewayRouteTableAssociation TransitGatewayRouteTablePropagation PrefixList"
    " NetworkInterfaceAttachment NetworkInterfacePermission SubnetCidrBlock"
    " DHCPOptions VPCDHCPOptionsAssociation NetworkAcl NetworkAclEntry SubnetNetworkAclAssociation"
    " VPCPeeringConnection EgressOnlyInternetGateway Volume VolumeAttachment EIPAssociation"
    " VPCEndpointService VPCEndpointServicePermissions VPCEndpointConnectionNotification VPNConnection"
    " VPNConnectionRoute VPNGateway VPNGatewayRoutePropagation",
    "ECR": "PublicRepository PullThroughCacheRule RegistryPolicy RegistryScanningConfiguration"
    " ReplicationConfiguration"
    " RepositoryCreationTemplate",
    "ECS": "CapacityProvider Cluster ClusterCapacityProviderAssociations Service TaskDefinition",
    "EKS": "AccessEntry Addon Cluster FargateProfile Nodegroup PodIdentityAssociation IdentityProviderConfig",
    "EMR": "Cluster InstanceGroupConfig SecurityConfiguration Step Studio",
    "ElastiCache": "CacheCluster ParameterGroup ReplicationGroup SecurityGroup SubnetGroup User UserGroup"
    " ServerlessCache",
    "ElasticBeanstalk": "Application ApplicationVersion ConfigurationTemplate Environment",
    "ElasticLoadBalancing": "LoadBalancer",
    "ElasticLoadBalancingV2": "Listener ListenerCertificate ListenerRule LoadBalancer TargetGroup TrustStore",
    "EventSchemas": "Registry Schema",
    "Events": "ApiDestination Archive Connection Endpoint EventBusPolicy",
    "FSx": "Snapshot StorageVirtualMachine Volume S3AccessPointAttachment",
    "GlobalAccelerator": "Accelerator EndpointGroup Listener",
    "Glue": "Classifier Connection Crawler Database Job Partition SecurityConfiguration Table Trigger"
    " Workflow",
    "Grafana": "Workspace",
    "GuardDuty": "Detector Filter IPSet",
    "IAM": "AccessKey Group GroupPolicy OIDCProvider SAMLProvider ServerCertificate User UserPolicy"
    " UserToGroupAddition VirtualMFADevice",
    "ImageBuilder": "ContainerRecipe Image Workflow",
    "InspectorV2": "Filter",
    "IoT": "Policy PolicyPrincipalAttachment Thing ThingPrincipalAttachment TopicRule Certificate",
    "KMS": "ReplicaKey",
    "Kinesis": "Stream StreamConsumer",
    "KinesisFirehose": "DeliveryStream",
    "Lambda": "Alias CodeSigningConfig EventInvokeConfig EventSourceMapping LayerVersionPermission Url"
    " Version",
    "Logs": "AccountPolicy Delivery DeliveryDestination DeliverySource Destination Integration"
    " LogAnomalyDetector QueryDefinition SubscriptionFilter Transformer",
    "MSK": "Cluster Configuration",
    "Neptune": "DBCluster DBClusterParameterGroup DBInstance DBParameterGroup DBSubnetGroup",
    "NetworkFirewall": "Firewall FirewallPolicy LoggingConfiguration RuleGroup",
    "OpenSearchService": "Domain",
    "Pipes": "Pipe",
    "RAM": "Permission ResourceShare",
    "RDS": "DBCluster DBClusterParameterGroup DBInstance DBParameterGroup DBProxy DBProxyTargetGroup"
    " DBSubnetGroup EventSubscription OptionGroup",
    "Redshift": "Cluster ClusterParameterGroup ClusterSubnetGroup",
    "ResourceGroups": "Group",
    "Route53": "HealthCheck HostedZone RecordSet RecordSetGroup",
    "Route53Resolver": "ResolverEndpoint ResolverRule ResolverRuleAssociation FirewallRuleGroup"
    " ResolverQueryLoggingConfig ResolverQueryLoggingConfigAssociation",
    "S3": "AccessGrant AccessGrantsInstance AccessGrantsLocation AccessPoint MultiRegionAccessPoint"
    " MultiRegionAccessPointPolicy StorageLens StorageLensGroup",
    "SES": "ConfigurationSet EmailIdentity ReceiptRule ReceiptRuleSet Template",
    "SNS": "TopicInlinePolicy",
    "SQS": "Queue QueueInlinePolicy QueuePolicy",
    "SSM": "Association MaintenanceWindow MaintenanceWindowTarget MaintenanceWindowTask PatchBaseline"
    " ResourceDataSync",
    "SSO": "Assignment PermissionSet",
    "SageMaker": "App AppImageConfig Cluster CodeRepository Domain Endpoint EndpointConfig FeatureGroup Image"
    " ImageVersion InferenceComponent MlflowTrackingServer Model ModelPackage ModelPackageGroup"
    " NotebookInstance NotebookInstanceLifecycleConfig Pipeline Project"
    " Space StudioLifecycleConfig UserProfile",
    "Scheduler": "Schedule ScheduleGroup",
    "SecretsManager": "RotationSchedule SecretTargetAttachment",
    "SecurityHub": "Hub Standard",
    "ServiceCatalog": "CloudFormationProduct LaunchRoleConstraint Portfolio PortfolioPrincipalAssociation"
    " PortfolioProductAssociation PortfolioShare TagOption TagOptionAssociation",
    "ServiceDiscovery": "HttpNamespace Instance PrivateDnsNamespace PublicDnsNamespace Service",
    "StepFunctions": "Activity StateMachine StateMachineAlias StateMachineVersion",
    "Synthetics": "Canary Group",
    "Transfer": "Server User Workflow",
    "WAFv2": "IPSet LoggingConfiguration RegexPatternSet RuleGroup WebACL WebACLAssociation",
    "XRay": "Group SamplingRule",
}


def names() -> frozenset[str]:
    return frozenset(
        f"AWS::{service}::{name}" for service, listed in RECORDED.items() for name in listed.split()
    )
