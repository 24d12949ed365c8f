package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"troupe/core/demand"
	"troupe/core/deployment"
	"troupe/core/kv"
	"troupe/core/planner"
	"troupe/core/router"
	"troupe/core/schedule"
)

// settling is how long the cluster runs before the beginning, so that its replicas serve then and have their
// shares of KV memory. Loads take no time meanwhile.
const settling = time.Minute

// model is a deployment and what was counted of its requests.
type model struct {
	Deployment
	sim      *simulation
	root     kv.Hash
	machine  *deployment.Deployment
	is       *deployment.Status // of machine since its last event; nil: not asked for
	replicas []*replica         // that have not ended, in the order in which they started

	permitted   []string // devices on which replicas may start; empty: all
	window      *demand.Window
	stored      uint64 // revision of what is stored
	wanted      int    // replicas, as stored
	assigned    []planner.Assignment
	withdrawn   []string
	intended    int  // replicas, as stored with the assignments
	isPlanned   bool // there are assignments
	byHand      bool // an operator has chosen the number of replicas
	level       deployment.Level
	preemptions []deployment.Preemption // as stored
	announced   router.Status
	stopping    map[lease]stopping
	ticking     bool
	restless    time.Time // until then its ticks may change something
	woken       time.Time // since when it wakes; zero: it does not

	requests, finished, refused, met int
	promptTokens, outputTokens       int
	ttft, tpot                       []time.Duration
	adapterWaits                     []time.Duration
	migrations                       migrations
	life
	totals
}

// lease names the replica that has or had memory of devices of a node.
type lease struct {
	replica string
	node    *node
}

// stopping is a command to stop a replica that is not answered.
type stopping struct {
	request string
	devices []*device // whose memory is not free
}

// digest names the files of the model.
func (m *model) digest() string { return cmp.Or(m.Weights, m.Name) }

// mayUse reports whether replicas may be placed on a device.
func (m *model) mayUse(d *device) bool {
	return m.Times[d.Kind] != nil && (len(m.Devices) == 0 || slices.Contains(m.Devices, d.name()))
}

// start runs the cluster until the beginning of the simulation.
func start(cfg Config) (*simulation, error) {
	s := &simulation{cfg: cfg, models: make(map[string]*model), requests: make(map[string]*request), reported: epoch,
		key: key{at: epoch.Add(-settling)}, last: epoch, byID: make(map[string]*replica),
		located: make(map[deployment.Location]*device), byDevice: make(map[string]*device)}
	s.copies, s.agenda = copies{sim: s}, agenda{sim: s}
	s.copies.index = s.register(&s.copies)
	s.agenda.index = s.register(&s.agenda)
	s.record.open(cfg)
	s.series.open(s)
	for _, d := range cfg.Devices {
		out := newDevice(d, s)
		s.devices = append(s.devices, out)
		s.located[out.location()], s.byDevice[out.name()] = out, out
	}
	s.addNodes()
	if err := s.addModels(); err != nil {
		return nil, err
	}
	s.startPlanner()
	s.deliver()
	s.runUntil(key{at: epoch})
	s.key = key{at: epoch}
	for _, d := range cfg.Deployments {
		m := s.models[d.Name]
		m.begin()
		if cfg.Unplaced {
			continue
		}
		if err := m.checkPlaced(); err != nil {
			return nil, err
		}
	}
	s.planFaults()
	return s, nil
}

// addModels starts the deployments.
func (s *simulation) addModels() error {
	now := s.key.at
	var stored []router.Stored
	var names []string
	for _, d := range s.cfg.Deployments {
		if d.MaxReplicas == 0 {
			d.MinReplicas, d.MaxReplicas = d.Replicas, d.Replicas
		}
		m := &model{Deployment: d, sim: s, root: kv.Root(d.Name, "", nil), machine: deployment.New(d.Name, routerNode),
			stored: 1, wanted: d.Replicas, level: d.Level, stopping: make(map[lease]stopping), life: newLife()}
		m.window, m.permitted = demand.NewWindow(now), m.allowed()
		m.place()
		s.models[d.Name] = m
		names = append(names, d.Name)
		stored = append(stored, m.storedForRouter())
		if err := m.checkDevices(); err != nil {
			return err
		}
	}
	s.router = router.New(routerNode, stored)
	s.performRouter(s.router.Start([]router.Member{{Name: routerNode, Deployments: router.Actor{ID: routerNode}}}, now))
	s.performRouter(s.router.StoreRead(names, now))
	s.routerMembers()
	for _, name := range names {
		m := s.models[name]
		m.handle(m.members())
		m.handle(m.apply())
		s.deliver()
	}
	return nil
}

// place assigns the replicas that are there at the beginning. Until then they are held.
func (m *model) place() {
	for _, p := range m.Places {
		m.assigned = append(m.assigned, planner.Assignment{Replica: p.Replica, Devices: []string{p.Device},
			Why: "it was there before", At: m.sim.key.at})
	}
	if len(m.Places) > 0 {
		m.isPlanned, m.byHand, m.intended = true, true, m.Replicas
	}
}

// begin ends what holds only before the beginning, and counts the requests of that time.
func (m *model) begin() {
	m.byHand = m.byHand && len(m.Places) == 0
	n := int(math.Round(m.Rate * settling.Seconds()))
	for i := range n {
		m.window.Arrived(epoch.Add(-settling * time.Duration(n-i) / time.Duration(n)))
	}
}

// checkDevices returns an error if the deployment names a device that does not exist, or one on which the times of
// its steps are not known.
func (m *model) checkDevices() error {
	if m.Group > 1 && m.Priority != schedule.Critical {
		return fmt.Errorf("deployment %s: its replicas have %d devices, and may share them with other "+
			"models, which is not simulated; make it critical", m.Name, m.Group)
	}
	for _, name := range m.Devices {
		if !slices.ContainsFunc(m.sim.devices, func(d *device) bool { return d.name() == name }) {
			return fmt.Errorf("deployment %s: there is no device %q", m.Name, name)
		}
	}
	for _, d := range m.sim.devices {
		named := len(m.Devices) == 0 || slices.Contains(m.Devices, d.name())
		if named && m.Times[d.Kind] == nil {
			return fmt.Errorf("deployment %s: no times of its steps on a device of kind %q, such as %s", m.Name, d.Kind,
				d.name())
		}
	}
	return nil
}

// checkPlaced returns an error if the replicas that are there from the beginning on have no place.
func (m *model) checkPlaced() error {
	if m.settled() {
		return nil
	}
	return fmt.Errorf("deployment %s: %s", m.Name, m.status().Detail)
}

// Check returns an error if the configuration cannot be simulated.
func (cfg Config) Check() error {
	switch {
	case cfg.Duration <= 0:
		return errors.New("the duration is not positive")
	case len(cfg.Devices) == 0:
		return errors.New("there are no devices")
	case len(cfg.Deployments) == 0:
		return errors.New("there are no deployments")
	}
	cfg.Record, cfg.Progress, cfg.Watch = nil, nil, nil
	_, err := start(cfg)
	return err
}
