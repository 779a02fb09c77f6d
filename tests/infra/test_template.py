"""The template says what the code says, and gives nobody more than the code needs."""

import json
import re
from typing import Any

import pytest

from dispatch.api.routes import ROUTES
from dispatch.signals import Signal
from dispatch.store import items
from embedded.stream import PUBLISHES, WAKES
from functions.supervisor import app as supervisor
from tests.infra.template import MONITORING, ROOT, TEMPLATE, listed, load, of_type, statements

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


@pytest.mark.parametrize(
    ("function", "mapping", "schemas"),
    [
        ("SupervisorFunction", "Wakes", WAKES),
        ("EventsFunction", "Decisions", PUBLISHES),
    ],
)
def test_a_stream_is_filtered_as_the_one_machine_stack_filters_it(
    function: str, mapping: str, schemas: frozenset[str]
) -> None:
    said = FUNCTIONS[function]["Events"][mapping]["Properties"]
    (pattern,) = said["FilterCriteria"]["Filters"]
    told = json.loads(pattern["Pattern"])
    assert told["eventName"] == ["INSERT"]
    assert set(told["dynamodb"]["NewImage"]["schema"]["S"]) == schemas
    assert said["DestinationConfig"]["OnFailure"]["Destination"] == {"GetAtt": "UnreadQueue.Arn"}


def test_every_route_of_the_handler_is_deployed_and_signed_for_unless_it_is_public() -> None:
    routes = of_type(TREE, "AWS::ApiGatewayV2::Route").values()
    signed = {"If": ["Jwt", "JWT", "AWS_IAM"]}
    assert {one["RouteKey"]: one["AuthorizationType"] for one in routes} == {
        f"{one.method} {one.path}": "NONE" if one.public else signed for one in ROUTES
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


def test_every_resource_that_is_all_of_them_is_explained_beside_it() -> None:
    for path in (TEMPLATE, MONITORING):
        for line in path.read_text().splitlines():
            if re.search(r'Resource: "?\*', line) or re.search(r'^\s+- "\*"', line):
                assert re.search(r"# \S.{20,}", line), line


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
    assert seen == 3


def update_attributes() -> dict[str, set[str]]:
    """The attributes that each update of the store names, by the kind of item."""
    requests: dict[str, list[dict[str, Any]]] = {
        "JOB#": [
            items.commit_request("t", "j", 0, [], token="t", settled_at=None)["TransactItems"][0][
                "Update"
            ],
            items.tombstone_request("t", "j"),
            items.quiet_request("t", "j", 0, "q"),
            items.close_request("t", "j"),
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
    assert update_attributes()["JOB#"] <= allowed
    for name, statement in statements(TREE):
        if statement.get("Sid") == "MoveHeads":
            said = statement["Condition"]["ForAllValues:StringEquals"]["dynamodb:Attributes"]
            assert set(said) == allowed, name


def test_the_api_reads_no_secret() -> None:
    assert who_may("secretsmanager:GetSecretValue") == {"SupervisorRole"}


# --- what people fill in and read ---------------------------------------------------------------


@pytest.mark.parametrize("name", TREE["Parameters"])
def test_every_parameter_is_described_and_bounded(name: str) -> None:
    told = TREE["Parameters"][name]
    assert told["Description"]
    assert "Default" in told
    bounded = {"AllowedValues", "AllowedPattern", "MinValue"} & set(told)
    assert bounded or told["Type"] == "CommaDelimitedList"


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
    page = (ROOT / "docs" / "reference" / "alarms.md").read_text()
    headings = re.findall(r"^## `([a-z0-9-]+)`", page, re.MULTILINE)
    assert sorted(headings) == sorted(alarm_names())


def test_the_dashboard_is_json() -> None:
    (board,) = of_type(WATCHED, "AWS::CloudWatch::Dashboard").values()
    assert len(json.loads(board["DashboardBody"]["Sub"])["widgets"]) == 9
