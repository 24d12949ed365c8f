package simulate

import (
	"troupe/core/deployment"
	"troupe/core/router"
	"troupe/core/schedule"
)

// apply returns the stored spec of the deployment.
func (m *model) apply() deployment.Apply {
	return deployment.Apply{Stored: m.stored, Need: m.need(), Spec: deployment.Spec{
		Settings: deployment.Settings{Path: m.digest(), BlockTokens: uint32(m.BlockTokens),
			KVBlocks: uint32(m.KVBlocks), MaxSequences: uint32(m.MaxSequences), MaxWaiting: uint32(m.MaxWaiting),
			StepTokens: uint32(m.StepTokens), Priority: int32(m.Class)},
		Replicas: m.wanted, Rest: schedule.RestOf(m.wanted, m.MinReplicas, m.MaxReplicas), Sleeps: m.MinReplicas == 0,
		Level: m.level, Preemptions: m.preemptions, Revision: schedule.Revision{Digest: m.digest(), Deploy: 1},
		Planned: m.isPlanned, Assigned: m.assignments(), Withdrawn: m.withdrawn,
	}}
}

// store stores the number of replicas and their level. The deployment and the router follow the store.
func (m *model) store(replicas int, level deployment.Level, why string) {
	s := m.sim
	if replicas != m.wanted || level != m.level {
		s.record.scale(s.key.at, m, replicas, level, why)
	}
	m.wanted, m.level = replicas, level
	m.stored++
	m.reportLoads()
	s.performRouter(s.router.Stored(m.storedForRouter(), s.key.at))
	m.handle(m.apply())
}

// levelNames are the levels as the router knows them.
var levelNames = map[deployment.Level]string{deployment.OnStandby: "standby", deployment.Parked: "parked"}

func (m *model) storedForRouter() router.Stored {
	rest := schedule.RestOf(m.wanted, m.MinReplicas, m.MaxReplicas)
	return router.Stored{Name: m.Name, At: m.stored, Rest: rest, MaxWaiting: m.MaxSequences + m.MaxWaiting,
		Wakes: m.MinReplicas == 0 && rest != schedule.Stopped, Level: levelNames[m.level],
		Preempted: m.wanted > 0 && len(m.preemptions) >= m.wanted}
}

// wake stores what the deployment decided itself, because of requests that wait or no longer do.
func (m *model) wake(e deployment.StoreLevel) {
	if e.Wakes {
		m.wakes++
		m.woken = m.sim.key.at
	}
	m.store(m.wanted, e.Level, e.Why)
	m.handle(deployment.LevelStored{})
}
