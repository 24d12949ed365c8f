package router

import (
	"maps"
	"slices"
	"time"

	"troupe/core/route"
	"troupe/core/wake"
)

// FlushInterval is the time between two Ticks.
const FlushInterval = 100 * time.Millisecond

const (
	heartbeatFlushes      = 5                      // flushes between two announcements if nothing changes
	silenceTimeout        = time.Second            // without messages; then the node is avoided; two heartbeats
	snapshotRetryInterval = 500 * time.Millisecond // between two requests to the same peer
	routeRetryAfter       = 50 * time.Millisecond  // RetryAfter of a refused route
	snapshotBlocks        = 8192                   // maximum per replica and tier in a snapshot: 64 KiB
)

// Machine decides what a router knows, announces and answers. It is not safe for concurrent use.
type Machine struct {
	node  string // this node
	phase Phase
	peers map[string]*peer // the other nodes by name

	leaving  map[string]bool // nodes that are shutting down
	avoid    map[string]bool // nodes that are leaving or not heard from
	silentAt time.Time       // no peer that is heard from becomes silent before this time

	models   map[string]*model
	local    map[string]Actor  // replicas of this node that have been announced, by name
	statuses map[string]Status // of deployments, by name
	stored   map[string]Stored // deployments by name
	tiers    map[tierName]Actor
	blocks   *route.BlockIndex // of tiers, by tierName.String

	sequence  uint64    // number of the last announcement
	shared    int       // reports and statuses shared since the last announcement
	gone      []string  // replicas of this node that ended since then
	withdrawn []string  // deployments that were withdrawn since then
	idle      int       // number of flushes since the last announcement
	flushDue  time.Time // zero: before the first flush

	waiting  *wake.Queue
	requests map[string]Request // those in waiting, by ID
	groups   map[string]Actor   // groups of deployments, by node

	log     decisionLog
	records bool       // decisions are reported
	saw     route.View // what the last decision saw, if records is set
	effects []Effect
}

// New returns the machine of a node's router. stored are the deployments that an earlier
// incarnation of the router kept.
func New(node string, stored []Stored) *Machine {
	m := &Machine{
		node: node, peers: make(map[string]*peer), leaving: make(map[string]bool), avoid: make(map[string]bool),
		models: make(map[string]*model),
		local:  make(map[string]Actor), statuses: make(map[string]Status), stored: make(map[string]Stored),
		tiers: make(map[tierName]Actor), blocks: route.NewBlockIndex(), log: newDecisionLog(loggedRequests),
		waiting: wake.New(), requests: make(map[string]Request), groups: make(map[string]Actor),
	}
	for _, s := range stored {
		m.stored[s.Name] = s
	}
	return m
}

// Phase returns the state of the router.
func (m *Machine) Phase() Phase { return m.phase }

func (m *Machine) emit(e Effect) { m.effects = append(m.effects, e) }

// take returns the effects of the current event.
func (m *Machine) take() []Effect {
	effects := m.effects
	m.effects = nil
	return effects
}

// advance enters the next phase if its condition is met.
func (m *Machine) advance(on Event) {
	fire(m, phaseTable, &m.phase, event{kind: on})
}

func (m *Machine) reportReady(event) { m.emit(ReportSynced{}) }

func (m *Machine) everySynced(event) bool {
	for _, p := range m.peers {
		if p.sync == Syncing {
			return false
		}
	}
	return true
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
