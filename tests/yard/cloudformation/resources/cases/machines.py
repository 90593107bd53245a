"""Cases of resources that run programs: machines and groups, AWS Batch, AWS PCS, and Image Builder."""

from __future__ import annotations

from typing import Any

from tests.yard.cloudformation.resources.cases.case import (
    OTHER_TAG_MAP,
    OTHER_TAGS,
    TAG_MAP,
    TAGS,
    Case,
    Cases,
    case,
)
from tests.yard.cloudformation.resources.world import World


def launch_template(world: World) -> Case:
    interfaces = [
        {
            "DeviceIndex": 0 if card == 0 else 1,
            "NetworkCardIndex": card,
            "InterfaceType": "efa",
            "Groups": [world.security_group()],
            "DeleteOnTermination": True,
        }
        for card in range(4)
    ]
    data = {
        "InstanceType": "dl1.24xlarge",
        "UserData": "TUlNRS1WZXJzaW9uOiAxLjA=",
        "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
        "NetworkInterfaces": interfaces,
    }
    return case(
        LaunchTemplateData=data, TagSpecifications=[{"ResourceType": "launch-template", "Tags": TAGS}]
    ).changed(LaunchTemplateData={**data, "UserData": "b3RoZXI="})


def job_definition(_world: World) -> Case:
    container = {
        "Image": "123456789012.dkr.ecr.us-east-1.amazonaws.com/gaudi:1",
        "Command": ["python", "-m", "train"],
        "ResourceRequirements": [{"Type": "VCPU", "Value": "96"}, {"Type": "MEMORY", "Value": "700000"}],
    }
    retry = {"Attempts": 3, "EvaluateOnExit": [{"Action": "RETRY", "OnStatusReason": "Host EC2*"}]}
    return case(Type="container", ContainerProperties=container, RetryStrategy=retry, Tags=TAG_MAP).changed(
        ContainerProperties={**container, "Command": ["true"]}
    )


def slurm(**settings: str) -> dict[str, Any]:
    custom = [{"ParameterName": name, "ParameterValue": value} for name, value in settings.items()]
    return {"ScaleDownIdleTimeInSeconds": 300, "SlurmCustomSettings": custom}


def pcs_cluster(world: World) -> Case:
    return case(
        Name="trial",
        Size="SMALL",
        Scheduler={"Type": "SLURM", "Version": "25.11"},
        Networking={"SubnetIds": [world.subnet()], "SecurityGroupIds": [world.security_group()]},
        SlurmConfiguration=slurm(Prolog="/opt/prolog.sh"),
        Tags=TAG_MAP,
    ).changed(SlurmConfiguration=slurm(Prolog="/opt/other.sh"), Tags=OTHER_TAG_MAP)


def node_group(world: World) -> Case:
    cluster = world.make("AWS::PCS::Cluster", **pcs_cluster(world).properties)
    template = world.launch_template()
    return case(
        ClusterId=cluster.attribute("Id"),
        Name="trn1",
        SubnetIds=[world.subnet()],
        PurchaseOption="ONDEMAND",
        CustomLaunchTemplate={"TemplateId": template.id, "Version": "1"},
        IamInstanceProfileArn=world.pcs_profile(),
        ScalingConfiguration={"MinInstanceCount": 0, "MaxInstanceCount": 4},
        InstanceConfigs=[{"InstanceType": "trn1.32xlarge"}],
        Tags=TAG_MAP,
    ).changed(ScalingConfiguration={"MinInstanceCount": 0, "MaxInstanceCount": 8})


def pcs_queue(world: World) -> Case:
    group = world.make("AWS::PCS::ComputeNodeGroup", **node_group(world).properties)
    return case(
        ClusterId=group.properties["ClusterId"],
        Name="train",
        ComputeNodeGroupConfigurations=[{"ComputeNodeGroupId": group.attribute("Id")}],
        Tags=TAG_MAP,
    ).changed(Tags=OTHER_TAG_MAP)


def component(_world: World) -> Case:
    return case(
        Name="efa",
        Version="1.2.3",
        Platform="Linux",
        Data="name: efa\nschemaVersion: 1.0\nphases: []\n",
        Tags=TAG_MAP,
    ).changed(Tags=OTHER_TAG_MAP)


def image_recipe(world: World) -> Case:
    part = world.make("AWS::ImageBuilder::Component", **component(world).properties)
    return case(
        Name="neuron",
        Version="1.0.0",
        ParentImage="ami-12c6146b",
        Components=[{"ComponentArn": part.id}],
        BlockDeviceMappings=[{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 200, "Encrypted": True}}],
        Tags=TAG_MAP,
    ).changed(Tags=OTHER_TAG_MAP)


def infrastructure(world: World) -> Case:
    return case(
        Name="neuron",
        InstanceProfileName=world.instance_profile().id,
        InstanceTypes=["trn1.2xlarge"],
        InstanceMetadataOptions={"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
        SubnetId=world.subnet(),
        SecurityGroupIds=[world.security_group()],
        TerminateInstanceOnFailure=True,
    ).changed(InstanceTypes=["trn1.32xlarge"])


def distribution(_world: World) -> Case:

    def to(name: str) -> list[dict[str, Any]]:
        return [{"Region": "us-east-1", "AmiDistributionConfiguration": {"Name": name, "AmiTags": TAG_MAP}}]

    return case(Name="neuron", Distributions=to("neuron-{{ imagebuilder:buildDate }}")).changed(
        Distributions=to("trn-{{ imagebuilder:buildDate }}")
    )


def image_pipeline(world: World) -> Case:
    recipe = world.make("AWS::ImageBuilder::ImageRecipe", **image_recipe(world).properties)
    machines = world.make(
        "AWS::ImageBuilder::InfrastructureConfiguration", **infrastructure(world).properties
    )
    return case(
        Name="neuron",
        ImageRecipeArn=recipe.id,
        InfrastructureConfigurationArn=machines.id,
        Status="ENABLED",
        ImageTestsConfiguration={"ImageTestsEnabled": True, "TimeoutMinutes": 60},
    ).changed(Status="DISABLED")


CASES: Cases = {
    "AWS::EC2::LaunchTemplate": launch_template,
    "AWS::EC2::PlacementGroup": lambda _world: case(Strategy="cluster", Tags=TAGS),
    "AWS::EC2::Instance": lambda world: case(
        ImageId="ami-12c6146b",
        InstanceType="c6i.large",
        SubnetId=world.subnet(),
        SecurityGroupIds=[world.security_group()],
        IamInstanceProfile=world.instance_profile().id,
        Tags=TAGS,
    ).changed(Tags=OTHER_TAGS),
    # No instances: other tests try what a group launches.
    "AWS::AutoScaling::AutoScalingGroup": lambda world: case(
        MinSize="0",
        MaxSize="4",
        DesiredCapacity="0",
        VPCZoneIdentifier=[world.subnet()],
        LaunchTemplate={"LaunchTemplateId": world.launch_template().id, "Version": "1"},
        PlacementGroup=world.make("AWS::EC2::PlacementGroup", Strategy="cluster").id,
        HealthCheckType="EC2",
        HealthCheckGracePeriod=0,
        TerminationPolicies=["NewestInstance"],
        MetricsCollection=[{"Granularity": "1Minute"}],
        Tags=[{"Key": "slipway:cluster", "Value": "c6i", "PropagateAtLaunch": True}],
    ).changed(MaxSize="6", Tags=[{"Key": "owner", "Value": "you", "PropagateAtLaunch": False}]),
    "AWS::AutoScaling::ScheduledAction": lambda world: case(
        AutoScalingGroupName=world.scaling_group(), Recurrence="0 20 * * *", MinSize=0, DesiredCapacity=0
    ).changed(Recurrence="0 21 * * *"),
    "AWS::AutoScaling::ScalingPolicy": lambda world: case(
        AutoScalingGroupName=world.scaling_group(),
        PolicyType="SimpleScaling",
        AdjustmentType="ExactCapacity",
        ScalingAdjustment=0,
    ).changed(ScalingAdjustment=1),
    "AWS::AutoScaling::LifecycleHook": lambda world: case(
        AutoScalingGroupName=world.scaling_group(),
        LifecycleTransition="autoscaling:EC2_INSTANCE_TERMINATING",
        HeartbeatTimeout=120,
        DefaultResult="CONTINUE",
    ).changed(HeartbeatTimeout=240),
    "AWS::Batch::ComputeEnvironment": lambda world: case(
        Type="MANAGED",
        ReplaceComputeEnvironment=False,
        UpdatePolicy={"TerminateJobsOnUpdate": False, "JobExecutionTimeoutMinutes": 60},
        ComputeResources={**world.compute_resources(), "UpdateToLatestImageVersion": False},
        Tags=TAG_MAP,
    ).changed(State="DISABLED"),
    "AWS::Batch::JobQueue": lambda world: case(
        Priority=1,
        State="ENABLED",
        ComputeEnvironmentOrder=[{"ComputeEnvironment": world.compute_environment(), "Order": 1}],
        Tags=TAG_MAP,
    ).changed(Priority=5, State="DISABLED"),
    "AWS::Batch::JobDefinition": job_definition,
    "AWS::Batch::SchedulingPolicy": lambda _world: case(
        FairsharePolicy={"ShareDecaySeconds": 60}, Tags=TAG_MAP
    ).changed(FairsharePolicy={"ShareDecaySeconds": 120}),
    "AWS::PCS::Cluster": pcs_cluster,
    "AWS::PCS::ComputeNodeGroup": node_group,
    "AWS::PCS::Queue": pcs_queue,
    "AWS::ImageBuilder::LifecyclePolicy": lambda world: case(
        Name="keep-three",
        ExecutionRole=world.role().attribute("Arn"),
        ResourceType="AMI_IMAGE",
        PolicyDetails=[{"Action": {"Type": "DELETE"}, "Filter": {"Type": "COUNT", "Value": 3}}],
        ResourceSelection={"TagMap": TAG_MAP},
    ).changed(Status="DISABLED"),
    "AWS::ImageBuilder::Component": component,
    "AWS::ImageBuilder::ImageRecipe": image_recipe,
    "AWS::ImageBuilder::InfrastructureConfiguration": infrastructure,
    "AWS::ImageBuilder::DistributionConfiguration": distribution,
    "AWS::ImageBuilder::ImagePipeline": image_pipeline,
}
