"""What the template needs before the local engine takes it: each change, and why it is no cheat."""

from __future__ import annotations

from typing import Any

Template = dict[str, Any]

CHANGES = (
    "traffic shifts at once: the engine has no CodeDeploy",
    "MaximumConcurrency is a number in place: the engine doesn't convert a parameter's text",
    "sqs:SendMessageBatch beside sqs:SendMessage: AWS has one right for both, the engine two",
    "an issuer on the loopback interface is accepted: API Gateway's own must speak TLS",
)


def adapted(template: Template) -> Template:
    """Change a built template in these four ways and in no other."""
    del template["Globals"]["Function"]["DeploymentPreference"]
    supervisor = template["Resources"]["SupervisorFunction"]["Properties"]
    workers = template["Parameters"]["WorkersAtOnce"]["Default"]
    supervisor["Events"]["Work"]["Properties"]["ScalingConfig"] = {"MaximumConcurrency": workers}
    for resource in template["Resources"].values():
        for policy in resource["Properties"].get("Policies", ()):
            for statement in policy["PolicyDocument"]["Statement"]:
                if "sqs:SendMessage" in statement["Action"]:
                    statement["Action"].append("sqs:SendMessageBatch")
    del template["Parameters"]["JwtIssuer"]["AllowedPattern"]
    return template
