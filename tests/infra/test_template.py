"""The template says what the code says, and gives nobody more than the code needs."""

import json
import re
from typing import Any

import pytest

from dispatch.api.routes import ROUTES
from dispatch.signals import Signal
from dispatch.store import items, retention_items
from embedded.stream import publishes, wakes
from functions.supervisor import app as supervisor
from tests.api.test_console import VARIABLES
from tests.infra.template import (
    MONITORING,
    ROOT,
    TEMPLATE,
    faults_of_parameter,
    listed,
    load,
    of_type,
    statements,
)

TREE = load(TEMPLATE)
WATCHED = load(MONITORING)
FUNCTIONS = of_type(TREE, "AWS::Serverless::Function")


def test_the_table_is_the_one_that_the_store_makes_for_itself() -> None:
    asked = items.create_table_request("records")
    (table,) = of_type(TREE, "AWS::DynamoDB::Table").values()

    def by_name(key: str, group: Any) -> Any:
        return sorted(group, key=lambda one: str(one[key]))

    assert table["BillingMode"] == asked["BillingMode"]
    assert table["KeySchema"] == asked["KeySchema"]
    for key, group in (
        ("AttributeName", "AttributeDefinitions"),
        ("IndexName", "GlobalSecondaryIndexes"),
    ):
        assert by_name(key, table[group]) == by_name(key, asked[group])
    stream = dict(asked["StreamSpecification"])
    assert stream.pop("StreamEnabled") is True
    assert table["StreamSpecification"] == stream


def test_the_records_outlive_the_stack_and_can_be_restored() -> None:
    (table,) = [one for one in TREE["Resources"].values() if one["Type"] == "AWS::DynamoDB::Table"]
    assert table["DeletionPolicy"] == "RetainExceptOnCreate"
    assert table["UpdateReplacePolicy"] == "Retain"
    said = table["Properties"]
    assert TREE["Parameters"]["DeletionProtection"]["Default"] == "true"
    assert said["DeletionProtectionEnabled"] == {"If": ["Protected", True, False]}
    assert said["SSESpecification"] == {"SSEEnabled": True}
    assert said["PointInTimeRecoverySpecification"] == {
        "PointInTimeRecoveryEnabled": True,
        "RecoveryPeriodInDays": 35,
    }
    assert "TimeToLiveSpecification" not in said


def matches(pattern: Any, told: Any) -> bool:
    """Whether an event is one of a pattern, as far as equality and prefixes go."""
    if isinstance(pattern, dict):
        return isinstance(told, dict) and all(
            name in told and matches(inner, told[name]) for name, inner in pattern.items()
        )
    return any(
        str(told).startswith(one["prefix"]) if isinstance(one, dict) else told == one
        for one in pattern
    )


def put(pk: str, sk: str, schema: str | None = None) -> dict[str, Any]:
    """A new item as the stream shows it."""
    key = {"pk": {"S": pk}, "sk": {"S": sk}}
    said = {} if schema is None else {"schema": {"S": schema}}
    return {"eventName": "INSERT", "dynamodb": {"Keys": key, "NewImage": {**key, **said}}}


JOB = "JOB#jabcdefgh"
ENTRY = "E#0000000001"
CHANGES = {
    "a new job": put(JOB, "HEADER", "dispatch.header.v1"),
    "a new job of a later build": put(JOB, "HEADER", "dispatch.header.v7"),
    "an intent": put(JOB, ENTRY, "dispatch.control.v1"),
    "an intent of a later build": put(JOB, ENTRY, "dispatch.control.v7"),
    "a fact": put(JOB, ENTRY, "dispatch.fact.v1"),
    "a fact of a later build": put(JOB, ENTRY, "dispatch.fact.v99"),
    "an entry of no build": put(JOB, ENTRY, "somebody.else"),
    "a head": put(JOB, "HEAD"),
    "a key": put("KEY#mine", "KEY"),
    "a lease": put("CLUSTER#here", "OWNER"),
    "a health": put("CLUSTER#here", "HEALTH"),
}


@pytest.mark.parametrize(
    ("function", "mapping", "wanted", "which"),
    [
        (
            "SupervisorFunction",
            "Wakes",
            wakes,
            {
                "a new job",
                "a new job of a later build",
                "an intent",
                "an intent of a later build",
            },
        ),
        (
            "EventsFunction",
            "Decisions",
            publishes,
            {
                "an intent",
                "an intent of a later build",
                "a fact",
                "a fact of a later build",
                "an entry of no build",
            },
        ),
    ],
)
def test_a_stream_is_filtered_as_the_one_machine_stack_filters_it(
    function: str, mapping: str, wanted: Any, which: set[str]
) -> None:
    said = FUNCTIONS[function]["Events"][mapping]["Properties"]
    (pattern,) = said["FilterCriteria"]["Filters"]
    told = json.loads(pattern["Pattern"])
    assert told["eventName"] == ["INSERT"]
    assert {name for name, change in CHANGES.items() if matches(told, change)} == which
    assert {name for name, change in CHANGES.items() if wanted(change)} == which
    assert said["DestinationConfig"]["OnFailure"]["Destination"] == {"GetAtt": "UnreadQueue.Arn"}


def test_a_release_that_changes_only_the_layer_publishes_new_versions() -> None:
    assert all(one["AutoPublishAliasAllProperties"] is True for one in FUNCTIONS.values())
    (layer,) = of_type(TREE, "AWS::Serverless::LayerVersion").values()
    assert layer["PublishLambdaVersion"] is True


def parameters_in(node: Any) -> set[str]:
    """The parameters that a part of the template depends on, by name or through a condition."""
    if isinstance(node, list):
        return {name for inner in node for name in parameters_in(inner)}
    if not isinstance(node, dict):
        return set()
    found: set[str] = {name for inner in node.values() for name in parameters_in(inner)}
    if isinstance(node.get("Ref"), str):
        found.add(node["Ref"])
    if "Sub" in node:
        text = node["Sub"] if isinstance(node["Sub"], str) else node["Sub"][0]
        found |= set(re.findall(r"\$\{([A-Za-z0-9]+)\}", text))
    if isinstance(node.get("If"), list):
        found |= parameters_in(TREE["Conditions"][node["If"][0]])
    return found & set(TREE["Parameters"])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_parameter_that_a_function_depends_on_makes_a_new_version_of_it(name: str) -> None:
    """And no other does: a version that differs in nothing from the last can't be published."""
    both = {**TREE["Globals"]["Function"], **FUNCTIONS[name]}
    own = {
        key: value
        for key, value in both.items()
        if key not in ("DeploymentPreference", "Events", "VersionDescription", "Environment")
    }
    for one in (TREE["Globals"]["Function"], FUNCTIONS[name]):
        own[f"Environment {id(one)}"] = one.get("Environment", {})
    assert parameters_in(FUNCTIONS[name]["VersionDescription"]) == parameters_in(own)


def test_a_restored_table_takes_the_place_of_the_stack_s_own_everywhere() -> None:
    """A name of the table that stands alone would go on reading, or writing, the old one."""

    def alone(node: Any, inside: bool = False) -> list[Any]:
        if isinstance(node, dict):
            if "If" in node and node["If"][0] == "Restored":
                assert "RestoredTable" in json.dumps(node["If"][1])
                return alone(node["If"][2], inside=True)
            names = json.dumps(node)
            bare = {"Ref", "GetAtt", "Sub"} & set(node) and re.search(r"\bRecords\b", names)
            if bare and not inside:
                return [node]
            return [one for inner in node.values() for one in alone(inner, inside)]
        if isinstance(node, list):
            return [one for inner in node for one in alone(inner, inside)]
        return []

    assert alone({key: TREE[key] for key in ("Globals", "Resources", "Outputs")}) == []


def test_every_route_of_the_handler_is_deployed_and_signed_for_unless_it_is_public() -> None:
    routes = of_type(TREE, "AWS::ApiGatewayV2::Route").values()
    signed = {"If": ["Jwt", "JWT", "AWS_IAM"]}
    console = {"If": ["Jwt", "NONE", "AWS_IAM"]}
    assert {one["RouteKey"]: one["AuthorizationType"] for one in routes} == {
        f"{one.method} {one.path}": "NONE" if one.public else console if one.console else signed
        for one in ROUTES
    }


def test_the_stage_throttles_only_routes_that_exist() -> None:
    (stage,) = of_type(TREE, "AWS::ApiGatewayV2::Stage").values()
    assert set(stage["RouteSettings"]) <= {f"{one.method} {one.path}" for one in ROUTES}


def test_the_access_log_names_the_caller_in_both_modes() -> None:
    (stage,) = of_type(TREE, "AWS::ApiGatewayV2::Stage").values()
    told = json.loads(stage["AccessLogSettings"]["Format"])
    assert told["iam"] == "$context.identity.userArn"
    assert told["subject"] == "$context.authorizer.claims.sub"


def test_a_tick_says_what_the_supervisor_listens_for() -> None:
    tick = TREE["Resources"]["Tick"]["Properties"]
    assert json.loads(tick["Target"]["Input"]) == {"source": supervisor.TICK}
    retries = {"MaximumRetryAttempts": 0, "MaximumEventAgeInSeconds": 60}
    assert tick["Target"]["RetryPolicy"] == retries
    assert FUNCTIONS["SupervisorFunction"]["EventInvokeConfig"] == retries


def test_a_message_is_hidden_six_times_as_long_as_a_worker_may_take() -> None:
    queue = TREE["Resources"]["WorkQueue"]["Properties"]
    assert queue["VisibilityTimeout"] == 6 * FUNCTIONS["SupervisorFunction"]["Timeout"]


def test_the_layer_is_built_for_the_processor_that_the_functions_run_on() -> None:
    layer = TREE["Resources"]["DispatchLayer"]
    assert layer["Metadata"]["BuildArchitecture"] == {"Ref": "Architecture"}
    assert layer["Properties"]["CompatibleArchitectures"] == [{"Ref": "Architecture"}]
    assert TREE["Globals"]["Function"]["Architectures"] == [{"Ref": "Architecture"}]
    assert TREE["Parameters"]["Architecture"]["AllowedValues"] == ["x86_64", "arm64"]


def test_snap_start_is_for_the_api_alone() -> None:
    assert [name for name, one in FUNCTIONS.items() if "SnapStart" in one] == ["IntentsFunction"]


# --- rights -----------------------------------------------------------------------------------


def roles() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for name, statement in statements(TREE):
        found.setdefault(name, []).append(statement)
    return found


def who_may(action: str) -> set[str]:
    return {
        name
        for name, group in roles().items()
        for one in group
        if action in listed(one["Action"]) and one["Effect"] == "Allow"
    }


def test_every_action_is_written_out() -> None:
    for path in (TREE, WATCHED):
        for name, statement in statements(path):
            for action in listed(statement["Action"]):
                assert re.fullmatch(r"[a-z0-9]+:[A-Za-z]+", action), f"{name}: {action}"
            assert "NotAction" not in statement
            assert "NotResource" not in statement


def unexplained(text: str) -> list[str]:
    """Lines that name more than one thing, without a word beside or above them on why."""
    lines = text.splitlines()
    found = []
    for number, line in enumerate(lines):
        code, _, beside = line.partition("  # ")
        wild = re.search(r"(?i)(arn|resource|principal).*\*", code) or re.search(r'- "\*"', code)
        if code.lstrip().startswith("#") or not wild:
            continue
        sid = next((k for k in range(number, number - 12, -1) if "- Sid:" in lines[k]), number)
        above = (lines[number - 1].lstrip(), lines[sid - 1].lstrip())
        if len(beside) < 20 and not any(one.startswith("# ") for one in above):
            found.append(line)
    return found


@pytest.mark.parametrize("path", [TEMPLATE, MONITORING], ids=lambda path: path.name)
def test_every_resource_that_is_more_than_one_is_explained_beside_it(path: Any) -> None:
    assert unexplained(path.read_text()) == []


def test_a_resource_that_nobody_explained_would_be_found() -> None:
    said = TEMPLATE.read_text()
    for comment in ("  # X-Ray knows no resource for these two actions", "# Lambda asks which"):
        assert comment in said
        assert unexplained(said.replace(comment, ""))


def test_no_managed_policy_of_amazon_s_is_used() -> None:
    assert "aws:policy/" not in TEMPLATE.read_text() + MONITORING.read_text()


def test_every_function_has_a_role_of_its_own() -> None:
    used = [one["Role"]["GetAtt"] for one in FUNCTIONS.values()]
    assert len(set(used)) == len(FUNCTIONS) == 4


def test_only_retention_may_delete_and_nobody_may_write_in_a_batch_or_by_statement() -> None:
    assert who_may("dynamodb:DeleteItem") == {"RetentionRole"}
    for action in ("BatchWriteItem", "PartiQLDelete", "PartiQLUpdate", "PartiQLInsert", "Scan"):
        assert who_may(f"dynamodb:{action}") == set()


def test_only_the_api_and_the_supervisor_may_append_and_only_in_a_transaction() -> None:
    assert who_may("dynamodb:PutItem") == {"IntentsRole", "SupervisorRole"}
    for name, statement in statements(TREE):
        if "dynamodb:PutItem" not in listed(statement["Action"]):
            continue
        keys = statement["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]
        enclosing = statement["Condition"].get("ForAnyValue:StringEquals", {})
        of_a_job = any(key.startswith(("JOB#", "KEY#")) for key in keys)
        in_one = enclosing == {"dynamodb:EnclosingOperation": ["TransactWriteItems"]}
        assert of_a_job == in_one, f"{name}: {statement['Sid']}"


def test_no_update_can_reach_what_an_entry_says() -> None:
    kept = {"body", "schema", "kind", "token", "job_id", "spec_digest", "idempotency_key"}
    seen = 0
    for name, statement in statements(TREE):
        if "dynamodb:UpdateItem" in listed(statement["Action"]):
            allowed = statement["Condition"]["ForAllValues:StringEquals"]["dynamodb:Attributes"]
            assert not kept & set(allowed), name
            seen += 1
    assert seen == 5


def update_attributes() -> dict[str, set[str]]:
    """The attributes that each update of the store names, by the kind of item."""
    requests: dict[str, list[dict[str, Any]]] = {
        "JOB#": [
            items.commit_request("t", "j", 0, [], token="t", settled_at=None)["TransactItems"][0][
                "Update"
            ],
            retention_items.tombstone_request("t", "j", 3),
            retention_items.removed_request("t", "j"),
            items.quiet_request("t", "j", 0, "q"),
            retention_items.close_request("t", "j"),
        ]
    }
    found: dict[str, set[str]] = {}
    for kind, group in requests.items():
        for one in group:
            text = f"{one['UpdateExpression']} {one.get('ConditionExpression', '')}"
            for short, name in one.get("ExpressionAttributeNames", {}).items():
                text = text.replace(short, name)
            words = set(re.findall(r"(?<![:\w])[a-z_]+\b", text))
            found.setdefault(kind, set()).update(words - {"attribute_not_exists"})
    return {kind: names - {"attribute_exists"} for kind, names in found.items()}


def test_every_update_of_a_head_is_within_the_attributes_that_are_allowed() -> None:
    allowed = {"pk", "sk", "revision", "settled_at", "tombstoned", "open_shard", "quiet"}
    allowed |= {"retention_shard"}
    assert update_attributes()["JOB#"] <= allowed
    for name, statement in statements(TREE):
        if statement.get("Sid") in ("MoveHeads", "MarkArchived"):
            said = statement["Condition"]["ForAllValues:StringEquals"]["dynamodb:Attributes"]
            assert set(said) == allowed, name


def test_what_notes_a_removal_can_change_nothing_else() -> None:
    (note,) = (one for _, one in statements(TREE) if one.get("Sid") == "NoteRemoved")
    said = note["Condition"]["ForAllValues:StringEquals"]["dynamodb:Attributes"]
    assert said == ["pk", "sk", "tombstoned", "retention_shard"]
    request = retention_items.removed_request("t", "j")
    assert request["UpdateExpression"] == "REMOVE retention_shard"


# --- archives ---------------------------------------------------------------------------------


def test_archives_are_off_by_default_and_outlive_the_stack() -> None:
    asked = TREE["Parameters"]
    assert [asked[name]["Default"] for name in ("Archive", "ArchiveAfterDays")] == ["off", "0"]
    archive = TREE["Resources"]["ArchiveBucket"]
    assert archive["Condition"] == "Archived"
    assert archive["DeletionPolicy"] == "RetainExceptOnCreate"
    assert archive["UpdateReplacePolicy"] == "Retain"


def test_nothing_is_removed_by_age_without_a_place_to_archive_in() -> None:
    rule = TREE["Rules"]["ArchivesNeedAPlace"]
    assert rule["RuleCondition"] == {"Not": [{"Equals": [{"Ref": "ArchiveAfterDays"}, "0"]}]}
    assert rule["Assertions"][0]["Assert"] == {"Equals": [{"Ref": "Archive"}, "on"]}


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("ArchiveAfterDays", ["0", "1", "90", "9999"], ["", "-1", "00", "1.5", "10000", "soon"]),
        ("ArchiveKeepDays", ["0", "3650", "99999"], ["", "-1", "07", "100000"]),
    ],
)
def test_a_number_of_days_is_checked_before_anything_is_deployed(
    name: str, good: list[str], bad: list[str]
) -> None:
    pattern = TREE["Parameters"][name]["AllowedPattern"]
    assert [one for one in good if not re.fullmatch(pattern, one)] == []
    assert [one for one in bad if re.fullmatch(pattern, one)] == []


def test_the_bucket_of_archives_is_private_encrypted_and_versioned() -> None:
    (bucket,) = of_type(TREE, "AWS::S3::Bucket").values()
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    encryption = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert encryption == [{"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]
    (rights,) = of_type(TREE, "AWS::S3::BucketPolicy").values()
    (refused,) = rights["PolicyDocument"]["Statement"]
    assert refused["Effect"] == "Deny"
    assert refused["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_archives_stay_for_ever_unless_a_number_of_days_is_given() -> None:
    (bucket,) = of_type(TREE, "AWS::S3::Bucket").values()
    kept, expiring = bucket["LifecycleConfiguration"]["Rules"]
    assert kept["NoncurrentVersionExpiration"] == {"NoncurrentDays": 90}
    assert not {"ExpirationInDays", "Transitions"} & set(kept)
    condition, end, otherwise = expiring["If"]
    assert (condition, otherwise) == ("ArchivesExpire", {"Ref": "AWS::NoValue"})
    assert end["ExpirationInDays"] == {"Ref": "ArchiveKeepDays"}
    assert TREE["Parameters"]["ArchiveKeepDays"]["Default"] == "0"


def test_only_retention_touches_archives_and_nobody_deletes_one() -> None:
    assert who_may("s3:PutObject") == who_may("s3:GetObject") == {"ArchivePolicy"}
    archive = TREE["Resources"]["ArchivePolicy"]
    assert archive["Condition"] == "Archived"
    assert archive["Properties"]["Roles"] == [{"Ref": "RetentionRole"}]
    for action in ("DeleteObject", "DeleteObjectVersion", "PutBucketPolicy", "ListBucket"):
        assert who_may(f"s3:{action}") == set()


def test_the_function_that_archives_is_told_where_and_when() -> None:
    told = FUNCTIONS["RetentionFunction"]["Environment"]["Variables"]
    assert told["DISPATCH_ARCHIVE_AFTER_DAYS"] == {"Ref": "ArchiveAfterDays"}
    assert told["DISPATCH_ARCHIVE_BUCKET"] == {"If": ["Archived", {"Ref": "ArchiveBucket"}, ""]}


def test_a_stage_tells_the_console_how_to_sign_in_where_it_does() -> None:
    (stage,) = of_type(TREE, "AWS::ApiGatewayV2::Stage").values()
    condition, told, otherwise = stage["StageVariables"]["If"]
    assert TREE["Conditions"][condition] == {"Not": [{"Equals": [{"Ref": "ConsoleClientId"}, ""]}]}
    assert otherwise == {"Ref": "AWS::NoValue"}
    # Those that tests/api/test_console.py gives a stage.
    assert set(told) == set(VARIABLES)
    assert told["ConsoleIssuer"] == {"Ref": "JwtIssuer"}


def test_the_schedule_may_run_two_functions_and_nothing_else() -> None:
    (statement,) = roles()["TickRole"]
    assert statement["Action"] == ["lambda:InvokeFunction"]
    assert statement["Resource"] == [
        {"Ref": "SupervisorFunction.Alias"},
        {"Ref": "RetentionFunction.Alias"},
    ]
    trusted = TREE["Resources"]["TickRole"]["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    assert [one["Principal"] for one in trusted] == [{"Service": "scheduler.amazonaws.com"}]


def test_a_role_of_a_function_is_taken_by_lambda_alone() -> None:
    for one in FUNCTIONS.values():
        role = TREE["Resources"][one["Role"]["GetAtt"].removesuffix(".Arn")]["Properties"]
        (trusted,) = role["AssumeRolePolicyDocument"]["Statement"]
        assert trusted["Principal"] == {"Service": "lambda.amazonaws.com"}
        assert trusted["Action"] == "sts:AssumeRole"


def test_the_api_reads_no_secret() -> None:
    assert who_may("secretsmanager:GetSecretValue") == {"SupervisorRole"}


# --- what people fill in and read ---------------------------------------------------------------


@pytest.mark.parametrize("name", TREE["Parameters"])
def test_every_parameter_is_described_and_bounded(name: str) -> None:
    told = TREE["Parameters"][name]
    assert "Default" in told
    assert faults_of_parameter(told) == []


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("JwtIssuer", "https://idp.example/realm", "http://idp.example"),
        ("JwtAudience", "dispatch", "two words"),
        ("VpcSubnetIds", "subnet-0a1b2c3d4e5f60718", "sg-0a1b2c3d"),
        ("VpcSecurityGroupIds", "sg-0a1b2c3d", "default"),
        ("ArchiveAfterDays", "90", "ninety"),
        ("ArchiveKeepDays", "0", "-1"),
        ("AlarmEmail", "ops@example.org", "ops"),
        ("RestoredTableStream", "2026-11-29T12:00:00.000", "arn:aws:dynamodb"),
    ],
)
def test_a_parameter_takes_what_it_is_for_and_refuses_a_mistake(
    name: str, good: str, bad: str
) -> None:
    told = TREE["Parameters"][name]
    assert re.fullmatch(told["AllowedPattern"], good)
    assert not re.fullmatch(told["AllowedPattern"], bad)
    assert told["ConstraintDescription"]


def test_every_parameter_stands_in_a_group_of_the_form() -> None:
    form = TREE["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
    shown = [name for group in form for name in group["Parameters"]]
    assert sorted(shown) == sorted(TREE["Parameters"])


def test_every_output_is_described() -> None:
    assert all(one["Description"] for one in TREE["Outputs"].values())
    assert {"Url", "Auth", "Region", "Table", "Clusters"} <= set(TREE["Outputs"])


# --- alarms -----------------------------------------------------------------------------------


def alarm_names() -> list[str]:
    alarms = of_type(WATCHED, "AWS::CloudWatch::Alarm").values()
    return [one["AlarmName"]["Sub"].removeprefix("${Name}-") for one in alarms]


WORTH_AN_ALARM = {
    Signal.CLUSTER_UNREACHABLE,
    Signal.OWN_OUTAGE,
    Signal.MASS_LOSS,
    Signal.RECORD_REFUSED,
    Signal.CLUSTERS_REFUSED,
}


def test_every_signal_that_is_worth_an_alarm_is_counted() -> None:
    counted = {
        one["FilterPattern"].split('"')[1]
        for one in of_type(WATCHED, "AWS::Logs::MetricFilter").values()
    }
    assert counted == {one.value for one in WORTH_AN_ALARM}


def test_every_alarm_of_our_own_metrics_has_a_filter_that_feeds_it() -> None:
    fed = {
        one["MetricTransformations"][0]["MetricName"]
        for one in of_type(WATCHED, "AWS::Logs::MetricFilter").values()
    }
    alarms = of_type(WATCHED, "AWS::CloudWatch::Alarm").values()
    own = {one["MetricName"] for one in alarms if one["Namespace"] == {"Sub": "Dispatch/${Name}"}}
    assert own == fed


def test_every_alarm_tells_the_topic_and_has_a_page_of_what_to_do() -> None:
    for one in of_type(WATCHED, "AWS::CloudWatch::Alarm").values():
        assert one["AlarmActions"] == [{"Ref": "AlarmTopic"}]
        assert one["AlarmDescription"]
        name = one["AlarmName"]["Sub"].removeprefix("${Name}-")
        assert one["AlarmDescription"].endswith(f"(docs/reference/alarms/{name}.md)")
    pages = {path.stem for path in (ROOT / "docs/reference/alarms").glob("*.md")} - {"index"}
    assert pages == set(alarm_names()), "make pages; scripts/notes/alarms.yaml says what to do"


def test_the_dashboard_is_json() -> None:
    (board,) = of_type(WATCHED, "AWS::CloudWatch::Dashboard").values()
    assert len(json.loads(board["DashboardBody"]["Sub"])["widgets"]) == 9
