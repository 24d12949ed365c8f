package simulate

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"troupe/core/hbm"
	"troupe/core/kv"
	core "troupe/core/replica"
	"troupe/core/router"
	"troupe/core/schedule"
	"troupe/core/turns"
	"troupe/core/units"
)

// model is a deployment and what was counted of its requests.
type model struct {
	Deployment
	sim      *simulation
	root     kv.Hash
	replicas []*replica

	requests, finished, refused, met int
	promptTokens, outputTokens       int
	ttft, tpot                       []time.Duration
	adapterWaits                     []time.Duration
}

// start places the replicas. They have their weights, and serve from the beginning.
func start(cfg Config) (*simulation, error) {
	s := &simulation{cfg: cfg, models: make(map[string]*model), requests: make(map[string]*request), reported: epoch,
		key: key{at: epoch}, last: epoch, byName: make(map[string]*replica), nodes: make(map[string]*node)}
	s.record.open(cfg)
	for _, d := range cfg.Devices {
		s.devices = append(s.devices, &device{Device: d, sim: s, machine: turns.New(turns.Config{}),
			up: link{Link: d.Up, sim: s}, down: link{Link: d.Down, sim: s}})
	}
	var stored []router.Stored
	var names []string
	for _, d := range cfg.Deployments {
		m := &model{Deployment: d, sim: s, root: kv.Root(d.Name, "", nil)}
		s.models[d.Name] = m
		names = append(names, d.Name)
		stored = append(stored, router.Stored{Name: d.Name, At: 1, MaxWaiting: d.MaxSequences + d.MaxWaiting})
		if err := s.place(m); err != nil {
			return nil, err
		}
	}
	s.router = router.New(routerNode, stored)
	s.router.Start([]router.Member{{Name: routerNode}}, epoch)
	s.router.StoreRead(names, epoch)
	s.agenda.index = len(s.replicas) + len(s.devices)
	s.queue = newQueue(s.agenda.index + 1)
	for i, d := range s.devices {
		d.index = len(s.replicas) + i
		s.load(d)
	}
	s.deliver()
	return s, nil
}

// place chooses the devices of a model's replicas.
func (s *simulation) place(m *model) error {
	for i := range m.Replicas {
		d, err := s.deviceFor(m, i)
		if err != nil {
			return err
		}
		r := &replica{sim: s, index: len(s.replicas), name: fmt.Sprintf("%s-%d", m.Name, i), model: m, device: d,
			times: m.Times[d.Kind]}
		if r.times == nil {
			return fmt.Errorf("deployment %s: no times of its steps on a device of kind %q, such as %s", m.Name, d.Kind,
				d.name())
		}
		s.byName[r.name] = r
		s.replicas, m.replicas, d.replicas = append(s.replicas, r), append(m.replicas, r), append(d.replicas, r)
	}
	return nil
}

// deviceFor returns the device of a replica: the given one, or else the choice of package schedule.
func (s *simulation) deviceFor(m *model, replica int) (*device, error) {
	need := m.need()
	if len(m.Devices) > 0 {
		at := slices.IndexFunc(s.devices, func(d *device) bool { return d.name() == m.Devices[replica] })
		if at < 0 {
			return nil, fmt.Errorf("deployment %s: there is no device %q", m.Name, m.Devices[replica])
		}
		if _, over := s.devices[at].budget(s.cfg.KVReserve).Add(need); over != nil {
			return nil, fmt.Errorf("deployment %s: %s on %s: %w", m.Name, m.Name, m.Devices[replica], over)
		}
		return s.devices[at], nil
	}
	gpus := make([]schedule.GPU, len(s.devices))
	for i, d := range s.devices {
		gpus[i] = schedule.GPU{Node: d.Node, Name: d.Name, Memory: d.budget(s.cfg.KVReserve)}
		for _, r := range d.replicas {
			if r.model == m {
				gpus[i].Siblings++
				gpus[i].Weights = schedule.OnDevice
			}
		}
	}
	gpu, why, ok := schedule.Place(need, gpus)
	if !ok {
		return nil, fmt.Errorf("deployment %s: no device for replica %d: %s", m.Name, replica, why)
	}
	return s.devices[slices.IndexFunc(s.devices, func(d *device) bool {
		return d.Node == gpu.Node && d.Name == gpu.Name
	})], nil
}

// budget returns the memory of the device with its replicas. Replicas of a model share its weights.
func (d *device) budget(reserve float64) hbm.Budget {
	b := hbm.NewBudget(d.Memory, reserve)
	loaded := make(map[*model]bool)
	for _, r := range d.replicas {
		n := r.model.need()
		if loaded[r.model] {
			n.Fixed = r.model.Adapters.bytes()
		}
		loaded[r.model] = true
		b = b.With(n)
	}
	return b
}

// kvSize returns the parameters of the number of KV blocks.
func (m *model) kvSize() units.KVSize {
	return units.KVSize{BlockTokens: m.BlockTokens, ContextTokens: m.ContextTokens, MaxSequences: m.MaxSequences,
		Requested: m.KVBlocks}
}

// need returns the memory of a replica.
func (m *model) need() hbm.Need {
	size := m.kvSize()
	return hbm.Need{Fixed: pages(m.WeightBytes) + m.Adapters.bytes(), Min: m.blockBytes(size.Min()),
		MinAlone: m.blockBytes(size.MinAlone()), Max: m.blockBytes(size.Max())}
}

// blockBytes returns the memory of a number of KV blocks.
func (m *model) blockBytes(blocks int) int64 {
	return pages(int64(blocks) * int64(m.BlockTokens) * m.KVTokenBytes)
}

func pages(bytes int64) int64 { return (bytes + hbm.PageBytes - 1) / hbm.PageBytes * hbm.PageBytes }

// load divides the device's KV memory among its replicas, and starts them.
func (s *simulation) load(d *device) {
	budget := d.budget(s.cfg.KVReserve)
	needs := make([]hbm.Need, len(d.replicas))
	for i, r := range d.replicas {
		needs[i] = r.model.need()
	}
	for i, share := range hbm.Shares(budget.KV(), needs) {
		r := d.replicas[i]
		blocks := int(share / (int64(r.model.BlockTokens) * r.model.KVTokenBytes))
		r.start(min(blocks, r.model.kvSize().Max()))
	}
}

// start takes the replica's machine through the startup of an actor that need not wait.
func (r *replica) start(blocks int) {
	m := r.model
	r.machine = core.New(core.Config{
		Name: r.name, Model: m.Name, Incarnation: 1, BlockTokens: m.BlockTokens, LeastBlocks: m.KVBlocks,
		MaxSequences: m.MaxSequences, MaxWaiting: m.MaxWaiting, StepTokens: m.StepTokens, Router: true,
		Weight: turns.Weight(turns.Class(m.Class)), MaxAdapters: m.Adapters.max(),
	})
	loaded := core.Model{Lease: r.name, Handle: r.name, Blocks: blocks,
		BlockBytes: uint64(m.BlockTokens) * uint64(m.KVTokenBytes), ContextTokens: m.ContextTokens,
		AdapterPages: m.Adapters.pages()}
	r.perform(r.machine.Start(epoch), epoch)
	r.perform(r.machine.Loaded(loaded, epoch), epoch)
	r.openTiers()
	r.perform(r.machine.Adopted(nil, epoch), epoch)
	r.perform(r.machine.EngineReady(0, core.Capture{}, epoch), epoch)
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
	_, err := start(Config{KVReserve: cfg.KVReserve, Devices: cfg.Devices, Deployments: cfg.Deployments,
		Duration: cfg.Duration})
	return err
}
