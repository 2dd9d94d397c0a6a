"""Everything that is learnt about pods from Lists in their order."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from numaplace.state.admission import AdmissionLog
from numaplace.state.announced_pods import AnnouncedPods
from numaplace.state.companions import CompanionLog
from numaplace.state.list_change import ListChange
from numaplace.state.stability import StabilityLog
from numaplace.state.unlisted_devices import UnlistedLog


@dataclass(frozen=True, slots=True)
class PodLogs:
    """A value for each; ``after_list`` returns the next one."""

    admission: AdmissionLog = field(default_factory=AdmissionLog)
    stability: StabilityLog = field(default_factory=StabilityLog)
    companions: CompanionLog = field(default_factory=CompanionLog)
    unlisted: UnlistedLog = field(default_factory=UnlistedLog)
    announced: AnnouncedPods = field(default_factory=AnnouncedPods)

    def after_list(self, change: ListChange) -> PodLogs:
        admission = self.admission.after_list(change)
        return PodLogs(
            admission,
            self.stability.after_list(change, admission.complete),
            self.companions.after_list(change.entries, admission.complete),
            self.unlisted if change.another else self.unlisted.after_list(change.devices),
            self.announced.after_list(change),
        )

    def of_another_kubelet(self) -> PodLogs:
        """Forget what is true for one kubelet only: who is done with admission, and what it has listed."""
        unlisted = self.unlisted.of_another_kubelet()
        return replace(self, admission=AdmissionLog(), stability=StabilityLog(), unlisted=unlisted)
