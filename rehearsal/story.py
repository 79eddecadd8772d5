"""The story of a rehearsal: a platform is deployed, a pod asks for one GPU, gets it, ends, and everything goes away.

Each step looks at the cloud and the cluster from outside, as a user could, and fails with what a user could look at.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from botocore.handlers import json_decode_template_body

from rehearsal import census, scenarios
from rehearsal.assembly import Assembly
from rehearsal.aws.events import EventLog
from rehearsal.cdk import Cdk
from rehearsal.cloud import Access
from rehearsal.diagnosis import Diagnosis
from rehearsal.kubernetes.api import KubeApi, KubeError, Manifest
from rehearsal.processes import Run, tail
from rehearsal.report import Reporter, Step, StepError
from rehearsal.scenarios import gpu_pool

GPU = gpu_pool.GPU
Found = TypeVar("Found")


@dataclass
class Story:
    """One telling.

    Args:
        run: identity and folder.
        assembly: what is deployed.
        cdk: the command line that deploys it.
        access: the cloud.
        reporter: whom it is told to.
        prices: instance type -> on-demand price, USD per hour.
        before: what stood in the local AWS before the deploy.
    """

    run: Run
    assembly: Assembly
    cdk: Cdk
    access: Access
    reporter: Reporter
    prices: Mapping[str, float]
    before: census.Census = field(default_factory=dict[str, frozenset[str]])

    @property
    def events(self) -> EventLog:
        """What the cloud wrote."""
        return EventLog(self.run.folder / "events.jsonl")

    def deploy(self) -> None:
        """Bootstrap, deploy, and see that what was deployed is what was synthesised.

        Raises:
            StepError: a step did not hold.
        """
        with self.reporter.step("bootstrap", "cdk bootstrap") as step:
            place = f"aws://{self.assembly.account}/{self.assembly.region}"
            # Counting loads the models of a dozen services, which takes a second and can be had while the CLI works.
            warm_up = threading.Thread(target=census.take, args=(self.access.client,), daemon=True)
            warm_up.start()
            self.cdk("bootstrap", ["bootstrap", place, "--app", self.assembly.folder], step.say)
            step.hold(place)
            warm_up.join()
            self.before = census.take(self.access.client)
        names = ", ".join(stack.name for stack in self.assembly.stacks)
        with self.reporter.step("deploy", "cdk deploy --all", simulated="CloudFormation, IAM, VPC, EKS's API") as step:
            options = ["--all", "--require-approval", "never", "--progress", "events"]
            try:
                self.cdk("deploy", ["deploy", "--app", self.assembly.folder, *options], step.say)
            except StepError as failure:
                refused = _unique(e.text for e in self.events.read() if e.kind in ("access-denied", "chart-missing"))
                raise StepError("\n".join([failure.message, *refused]), failure.log) from failure
            step.hold(names)
        with self.reporter.step("templates", "what was deployed is what was synthesised, byte for byte") as step:
            step.hold(f"{compare_templates(self.access, self.assembly)} templates")

    def scale(self) -> None:
        """One pod asks for a GPU; a node comes, serves it, and goes.

        Raises:
            StepError: a step did not hold.
        """
        cluster = Cluster(self)
        cluster.ready()
        pod = cluster.ask(scenarios.pod("one_gpu"))
        claim = cluster.claim(pod)
        instance = cluster.instance(claim)
        node = cluster.node(instance)
        cluster.gpu(node)
        cluster.served(pod)
        cluster.gone(claim, instance)
        cluster.close()

    def destroy(self) -> None:
        """Destroy the stacks and count what is left in the local AWS.

        Raises:
            StepError: the stacks cannot be destroyed, or something is left.
        """
        self._unprotect()
        with self.reporter.step("destroy", "cdk destroy --all") as step:
            self.cdk("destroy", ["destroy", "--app", self.assembly.folder, "--all", "--force"], step.say)
            step.hold(f"{len(self.assembly.stacks)} stacks")
        with self.reporter.step("census-aws", "nothing is left behind in the local AWS") as step:
            after = census.take(self.access.client)
            left = census.left_behind(self.before, after)
            self.reporter.record.census |= left
            if left:
                listed = "\n".join(f"{kind}: {', '.join(names)}" for kind, names in left.items())
                raise StepError(f"after the destroy these are left, which were not there before the deploy:\n{listed}")
            stay = ["what cdk bootstrap made", *census.stays(self.access.client)]
            step.hold(f"{len(after)} kinds of resources counted; as on AWS these stay: {', '.join(stay)}")

    def _unprotect(self) -> None:
        """Turn deletion protection off where it is on, as an operator must before a destroy: EKS refuses otherwise."""
        eks = self.access.client("eks")
        clusters = [eks.describe_cluster(name=name)["cluster"] for name in eks.list_clusters()["clusters"]]
        protected = [cluster["name"] for cluster in clusters if cluster.get("deletionProtection")]
        if not protected:
            return
        with self.reporter.step("unprotect", "an operator turns deletion protection off") as step:
            for name in protected:
                try:
                    eks.delete_cluster(name=name)
                except eks.exceptions.InvalidRequestException as refusal:
                    step.say(refusal.response["Error"]["Message"])
                else:
                    raise StepError(f"cluster {name} has deletion protection, and was deleted all the same")
                eks.update_cluster_config(name=name, deletionProtection=False)
            step.hold(
                f"{', '.join(protected)}: DeleteCluster was refused, then "
                "aws eks update-cluster-config --no-deletion-protection"
            )


class Cluster:
    """The first cluster of the deployed app, as its administrator sees it.

    Raises:
        StepError: no cluster is running.
    """

    def __init__(self, story: Story) -> None:
        active = [event for event in story.events.read() if event.kind == "cluster-active"]
        if not active:
            raise StepError("the deployed app has no EKS cluster", tail(story.run.logs / "cloud.log"))
        self._story = story
        self._reporter = story.reporter
        self._name: str = active[-1].data["cluster"]
        self._kube = KubeApi(Path(active[-1].data["kubeconfig"]), manager="rehearse")
        self._why = Diagnosis(story.run, story.events, self._kube)
        self._ec2 = story.access.client("ec2")
        self._claims: set[str] = set()
        self._asked_at = time.time()

    def close(self) -> None:
        """Close the connections."""
        self._kube.close()

    def ready(self) -> None:
        """See every Deployment, DaemonSet and add-on of the platform ready on the nodes that it has without a GPU."""
        eks = self._story.access.client("eks")

        def all_ready() -> str | None:
            workloads = [item for kind in ("Deployment", "DaemonSet") for item in self._list(kind)]
            addons: list[str] = eks.list_addons(clusterName=self._name)["addons"]
            waiting = [*self._why.unready_workloads(), *self._inactive(eks, addons)]
            step.say(", ".join(waiting))
            return None if waiting else f"{len(workloads)} Deployments and DaemonSets, {len(addons)} add-ons"

        def why() -> list[str]:
            addons = self._inactive(eks, eks.list_addons(clusterName=self._name)["addons"])
            unready = [*self._why.unready_workloads(), *addons, *self._why.unscheduled()]
            return [*self._why.refusals(0), *self._why.karpenter(), *unready]

        with self._reporter.step(
            "workloads", "what the platform runs is ready", simulated="add-ons, and all containers but Karpenter's"
        ) as step:
            step.hold(self._wait(step, "everything that the platform runs is ready", all_ready, 60, why))

    def _inactive(self, eks: Any, addons: Iterable[str]) -> list[str]:
        states = {
            name: eks.describe_addon(clusterName=self._name, addonName=name)["addon"]["status"] for name in addons
        }
        return [f"add-on {name} is {state}" for name, state in states.items() if state != "ACTIVE"]

    def ask(self, scenario: Manifest) -> Manifest:
        """Fit the scenario's pod to a GPU pool there is, create it, and see that no node there is can take it."""
        name, namespace = _identity(scenario)
        with self._reporter.step("pod-pending", "a pod asks for one GPU and stays Pending") as step:
            self._claims = {claim["metadata"]["name"] for claim in self._list("NodeClaim")}
            pools = self._list("NodePool")
            pool = gpu_pool.choose(pools)
            # Without a GPU pool it is asked all the same: the next step then fails, and says what is missing.
            pod = gpu_pool.fit(scenario, pool, pools) if pool else scenario
            self._kube.create(pod)
            self._asked_at = time.time()

            def unschedulable() -> str | None:
                conditions = self._kube.get("Pod", name, namespace).get("status", {}).get("conditions", [])
                waits = [c for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"]
                return str(waits[0].get("message", "")) if waits else None

            said = _first(self._wait(step, "the pod is found unschedulable", unschedulable, 15, self._nothing))
            asked = f"asks NodePool {pool['metadata']['name']}, " if pool else ""
            step.hold(f"{said}\n{asked}{gpu_pool.describe(pod)}")
        return pod

    def claim(self, pod: Manifest) -> Manifest:
        """See Karpenter make a NodeClaim."""
        name, namespace = _identity(pod)

        def new_claim() -> Manifest | None:
            claims = [c for c in self._list("NodeClaim") if c["metadata"]["name"] not in self._claims]
            return claims[0] if claims else None

        def why() -> list[str]:
            found = [*self._why.pools_absent(), *self._why.karpenter(), *self._why.not_ready()]
            return [*self._why.refusals(0), *found] or self._why.pod(name, namespace)

        with self._reporter.step("node-claim", "Karpenter makes a NodeClaim") as step:
            claim = self._wait(step, "Karpenter makes a NodeClaim for the pod", new_claim, 60, why)
            pool = claim["metadata"]["labels"].get("karpenter.sh/nodepool")
            step.hold(f"{claim['metadata']['name']} of NodePool {pool}")
        return claim

    def instance(self, claim: Manifest) -> dict[str, Any]:
        """See an instance bought for a NodeClaim."""
        name = claim["metadata"]["name"]

        def bought() -> str | None:
            found = self._kube.find("NodeClaim", name)
            if found is None:
                raise StepError(
                    "\n".join([f"NodeClaim {name} was given up before an instance was bought", *why()]),
                    self._log_since(),
                )
            return found.get("status", {}).get("providerID")

        def why() -> list[str]:
            return [*self._why.refusals(self._asked_at), *self._conditions(name)]

        with self._reporter.step("instance", "an instance is bought", simulated="EC2, its prices and capacity") as step:
            provider = self._wait(step, "an instance is bought for the NodeClaim", bought, 30, why)
            instance = self._describe(provider.rpartition("/")[2])
            price = _price(self._ec2, instance, self._story.prices)
            record = {
                "id": instance["InstanceId"],
                "type": instance["InstanceType"],
                "zone": instance["Placement"]["AvailabilityZone"],
                "capacity_type": instance.get("InstanceLifecycle", "on-demand"),
                "usd_per_hour": price,
                "bought_at": time.time(),
            }
            self._reporter.record.instances.append(record)
            step.hold(
                f"{record['type']} in {record['zone']}, {record['capacity_type']}, "
                + (f"{price:.4f} USD per hour" if price is not None else "price unknown")
            )
        return record

    def node(self, instance: dict[str, Any]) -> str:
        """See the instance become a node."""

        def joined() -> str | None:
            for node in self._list("Node"):
                if node["spec"].get("providerID", "").endswith(instance["id"]):
                    return str(node["metadata"]["name"])
            return None

        def why() -> list[str]:
            return self._why.refusals(self._asked_at, ("node-refused", "data-plane-trouble"))

        with self._reporter.step("node", "the node joins", simulated="the machine and its kubelet (KWOK)") as step:
            node = self._wait(step, "the instance joins the cluster as a node", joined, 45, why)
            labels = self._kube.get("Node", node)["metadata"]["labels"]
            shown = [f"{key}={labels[key]}" for key in ("karpenter.sh/nodepool", "kubernetes.io/arch") if key in labels]
            step.hold(" ".join([node, *shown]))
        return node

    def gpu(self, name: str) -> None:
        """See the GPU registered on the node."""

        def registered() -> int | None:
            node = self._kube.find("Node", name)
            if node is None:
                raise StepError(f"node {name} went away before {GPU} was registered", self._log_since())
            return int(node["status"].get("allocatable", {}).get(GPU, "0")) or None

        def why() -> list[str]:
            node = self._kube.find("Node", name)
            return self._why.device_plugin(node) if node else []

        with self._reporter.step("gpu", f"{GPU} is registered", simulated="the GPU and its plugin's work") as step:
            count = self._wait(step, f"{GPU} is registered on {name}", registered, 30, why)
            step.hold(f"{GPU}: {count} on {name}")

    def served(self, pod: Manifest) -> None:
        """See the pod run and end."""
        name, namespace = _identity(pod)

        def ended() -> Manifest | None:
            found = self._kube.get("Pod", name, namespace)
            step.say(f"pod {name} is {found['status'].get('phase')}")
            if found["status"].get("phase") == "Failed":
                raise StepError(f"pod {name} failed: {found['status']}")
            return found if found["status"].get("phase") == "Succeeded" else None

        with self._reporter.step("pod-served", "the pod runs and ends", simulated="the container's work") as step:
            found = self._wait(step, "the pod runs and ends", ended, 60, lambda: self._why.pod(name, namespace))
            step.hold(f"{name} ran on {found['spec'].get('nodeName')}")

    def gone(self, claim: Manifest, instance: dict[str, Any]) -> None:
        """See the empty node consolidated away, as its NodePool's own disruption settings say."""
        name = claim["metadata"]["name"]
        pools = {pool["metadata"]["name"]: pool for pool in self._list("NodePool")}
        pool = pools.get(claim["metadata"]["labels"].get("karpenter.sh/nodepool"), {})
        wait = gpu_pool.consolidate_after(pool)

        def terminated() -> bool | None:
            state = self._describe(instance["id"])["State"]["Name"]
            there = self._kube.find("NodeClaim", name) is not None
            step.say(f"consolidateAfter is {wait}; the instance is {state}")
            return True if state == "terminated" and not there else None

        def why() -> list[str]:
            return [*self._why.refusals(self._asked_at), *self._conditions(name)]

        within = 60 + (0 if wait == "Never" else gpu_pool.seconds(wait))
        with self._reporter.step("consolidated", "the node is consolidated away", simulated="EC2") as step:
            self._wait(step, "the empty node is consolidated away", terminated, within, why)
            instance["seconds"] = round(time.time() - instance.pop("bought_at"), 1)
            price = instance["usd_per_hour"]
            if price is not None:
                instance["usd"] = round(price * instance["seconds"] / 3600, 6)
            cost = f", {instance['usd']:.4f} USD" if price is not None else ""
            step.hold(
                f"{instance['id']} terminated after {instance['seconds']:.0f} s{cost}; consolidateAfter is {wait}"
            )

    def _wait(
        self, step: Step, what: str, probe: Callable[[], Found | None], within_s: float, why: Callable[[], list[str]]
    ) -> Found:
        """Ask until there is an answer; say why there is none when time is up."""
        deadline = time.monotonic() + within_s
        while True:
            found = probe()
            if found is not None:
                return found
            if time.monotonic() > deadline:
                reasons = _unique(why())
                message = "\n".join([f"it was expected that {what}; it did not within {within_s:.0f} s.", *reasons])
                raise StepError(message, self._log_since())
            if not step.detail:
                step.say("waiting")
            time.sleep(0.25)

    def _list(self, kind: str) -> list[Manifest]:
        try:
            return self._kube.list(kind)
        except KubeError as error:
            if error.absent:  # the kind's CRD is not installed
                return []
            raise

    def _describe(self, instance_id: str) -> dict[str, Any]:
        answer = self._ec2.describe_instances(InstanceIds=[instance_id])
        return answer["Reservations"][0]["Instances"][0]

    def _conditions(self, claim: str) -> list[str]:
        found = self._kube.find("NodeClaim", claim)
        if found is None:
            return [f"NodeClaim {claim} is gone"]
        conditions = found.get("status", {}).get("conditions", [])
        return [
            f"NodeClaim {claim}: {c['type']} is {c['status']}: {c.get('message') or c.get('reason', '')}"
            for c in conditions
            if c["status"] != "True"
        ]

    def _log_since(self) -> str:
        """What Karpenter logged since the pod was created; all that it logged where it has not said anything since."""
        return self._why.karpenter_log(self._asked_at) or self._why.karpenter_log()

    @staticmethod
    def _nothing() -> list[str]:
        return []


def compare_templates(access: Access, assembly: Assembly) -> int:
    """Compare every deployed template with the assembly's file, byte for byte, and say how many there were.

    Raises:
        StepError: one differs.
    """
    cloudformation = access.client("cloudformation")
    # botocore would decode the JSON, and the comparison would be of meanings, not of bytes.
    cloudformation.meta.events.unregister("after-call.cloudformation.GetTemplate", json_decode_template_body)
    for stack in assembly.stacks:
        deployed = cloudformation.get_template(StackName=stack.name, TemplateStage="Original")["TemplateBody"]
        if deployed != stack.template.read_text(encoding="utf-8"):
            raise StepError(f"stack {stack.name}: the deployed template is not {stack.template}, byte for byte")
    return len(assembly.stacks)


def _price(ec2: Any, instance: dict[str, Any], on_demand: Mapping[str, float]) -> float | None:
    """Price of an instance in USD per hour: a spot instance's from EC2's history, else the recorded on-demand price."""
    kind = instance["InstanceType"]
    if instance.get("InstanceLifecycle") != "spot":
        return on_demand.get(kind)
    history = ec2.describe_spot_price_history(
        InstanceTypes=[kind],
        ProductDescriptions=["Linux/UNIX"],
        AvailabilityZone=instance["Placement"]["AvailabilityZone"],
    )["SpotPriceHistory"]
    return float(history[0]["SpotPrice"]) if history else None


def _identity(manifest: Manifest) -> tuple[str, str]:
    return manifest["metadata"]["name"], manifest["metadata"].get("namespace", "default")


def _first(text: str) -> str:
    """The first sentence."""
    return text.partition(". ")[0]


def _unique(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))
