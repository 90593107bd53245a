"""Calls that moto answers as if something ran: the yard refuses them, with a reason.

To add one: its name next to a reason. A call that the yard implements later moves to registry.py.
"""

from __future__ import annotations

from collections.abc import Mapping

# Why nothing would run -> calls.
_CALLS: Mapping[str, str] = {
    "no query or data job runs here": (
        "athena:StartQueryExecution emr:AddJobFlowSteps emr:RunJobFlow emr-serverless:StartJobRun"
        " glue:StartCrawler glue:StartJobRun redshift-data:ExecuteStatement"
    ),
    "no pipeline runs here": "codepipeline:StartPipelineExecution",
    "there is no model behind it": (
        "comprehend:DetectEntities comprehend:DetectKeyPhrases comprehend:DetectPiiEntities"
        " comprehend:DetectSentiment polly:SynthesizeSpeech rekognition:DetectLabels"
        " rekognition:DetectText rekognition:StartFaceSearch rekognition:StartTextDetection"
        " textract:DetectDocumentText textract:StartDocumentTextDetection"
        " transcribe:StartMedicalTranscriptionJob transcribe:StartTranscriptionJob"
    ),
    "no ECS task runs here; AWS Batch runs the programs of its jobs": (
        "ecs:CreateService ecs:RunTask ecs:StartTask"
    ),
    "functions are invoked by Invoke alone": "lambda:InvokeAsync lambda:InvokeWithResponseStream",
    "of SageMaker's jobs only training jobs run here": (
        "sagemaker:CreateAutoMLJob sagemaker:CreateAutoMLJobV2 sagemaker:CreateCompilationJob"
        " sagemaker:CreateHyperParameterTuningJob sagemaker:CreateProcessingJob"
        " sagemaker:CreateTransformJob sagemaker:StartPipelineExecution"
    ),
    "no node of SageMaker HyperPod runs here": "sagemaker:CreateCluster",
    "no SageMaker endpoint runs here": "sagemaker:CreateEndpoint",
    "no notebook runs here": "sagemaker:CreateNotebookInstance",
    "no state machine runs here; its definition is kept": (
        "stepfunctions:StartExecution stepfunctions:StartSyncExecution"
    ),
}
REASONS: Mapping[tuple[str, str], str] = {
    (service, operation): reason
    for reason, calls in _CALLS.items()
    for service, operation in (call.split(":") for call in calls.split())
}

# Calls and settings that are accepted, but do less than on AWS.
LESS_THAN_AWS = (
    "Lambda functions of Python run on the yard's own Python and boto3, whatever version their runtime names",
    "a Lambda function has no limit of memory, is not kept warm, and reaches the yard, not the internet",
    "a custom resource's function sends its response by http",
    "the yard does the work of the CDK's AwsCustomResource and Provider, whose functions need Node.js",
    "a bucket deployment of the CDK invalidates no CloudFront distribution and writes no metadata",
    "an EFS replication is kept in its template: no destination is made, and no file is copied",
    "CloudWatch Logs masks no data and indexes no field",
    "packet delay needs sch_netem in this machine's kernel; where it is missing, the log of a job says so",
    "Invoke and custom resources start a Lambda function; no service, rule or queue does, and no destination",
    "Lambda functions of other runtimes, with layers or in images are kept, and refused when invoked",
    "EC2 RunInstances takes any AMI id; an instance outside an Auto Scaling group runs nothing",
    "AMIs, accounts, prefix lists and endpoint services that are not this account's are taken on trust",
    "FSx and EFS file systems are available at once; an EFS of a job or a host is a folder of this machine",
    "NAT gateways and VPC endpoints are kept and carry no traffic",
    "queues, tables, load balancers, databases and users of a stack are only recorded, and cannot be used",
    "SsmAssociations of an EC2 instance start no document, and other associations are recorded only",
    "a public parameter of AWS has one version, which answers for all others",
    "Fn::ForEach loops over lists in the template, not over parameters",
    "a wait condition is met at once; nobody signals it",
    "a cluster of ParallelCluster's custom resource is checked and kept: no head node starts, no job runs",
    "AWS PCS's sample AMIs are there by name, with ids of the yard's own",
    "AMIs of AWS's public parameters have their owner, architecture and root device, but are empty",
    "CloudFormation's own tags, aws:cloudformation:*, are not added to resources",
)
