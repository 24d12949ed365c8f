package dst

import (
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"troupe/core/kv"
	"troupe/messages"
	"troupe/testkit/natskv"
)

// Options describe a run.
type Options struct {
	Seed   uint64
	Nodes  int
	Calls  int
	Load   time.Duration                       // in which the calls are opened and the faults occur; 0: 15 s
	Faults []Fault                             // nil: the faults that the seed determines
	Count  int                                 // number of faults that the seed determines
	Busy   bool                                // long prompts and outputs; KV memory is short
	Calm   bool                                // the faults are only commands of operators, so nothing may fail
	Log    io.Writer                           // may be nil
	Trace  func(at time.Duration, task string) // may be nil

	Kinds  []FaultKind // of the faults that the seed determines; nil: all
	Actors []string    // kinds of actors that crash; nil: all

	PhaseCrash *PhaseCrash // may be nil

	DeviceBytes  int64  // memory of each device; 0: 36 MiB
	Elastic      bool   // the planner chooses between one and three replicas of each model
	LateAdapters bool   // replicas have no memory for adapters until the first is needed
	Sources      bool   // nodes have two devices, and load weights from devices and other nodes
	Steps        bool   // faults occur in steps of the planner that leads
	Crowd        int    // number of further models, which sleep unless requests wait for them
	MaxSequences uint32 // of the model whose KV memory shrinks and grows, in a step; 0: as the other model
}

// Result is the result of a run.
type Result struct {
	Trace    string
	Steps    uint64
	Virtual  time.Duration
	Faults   []Fault
	Failures []string // violated properties
	Refused  map[string]int
	Served   int
	Seen     Seen
	Rested   time.Duration // from the end of the load and of all faults until the cluster was at rest
	Counts   Counts

	Transitions []string // rows of transition tables that have applied, each with its state

	Void int // number of calls whose client was connected to a node that crashed
}

// directOdds is the number of calls of which one goes to a session without a gateway.
const directOdds = 2

// settle is the virtual time after the load and all of its faults within which every request must
// end. The slowest recovery is that of a device that is lost for up to 20 s and then tested.
const settle = time.Minute

// calmDown is the virtual time from the end of the load and all of its faults until what is at
// rest is checked. What takes longer than that is waited for then.
const calmDown = 2 * time.Second

// The limits of a replica.
const (
	maxSequences = 4 // in a step
	maxWaiting   = 16
)

// model is one of the deployments. The first has few KV blocks, so that sequences are preempted.
// The KV memory of the second one shrinks and grows.
type model struct {
	name     string
	kvBlocks uint32 // 0: as memory allows
	replicas uint32 // initial number
	sleeps   bool   // it may have none
	idle     uint32 // seconds without requests after which it sleeps
}

var models = []model{{name: "m", kvBlocks: 26, replicas: 2}, {name: "k", replicas: 1}}

// maxCrowd is the largest Options.Crowd.
const maxCrowd = 9

// modelsOf returns the models of a run: those of each run, and the crowd.
func modelsOf(crowd int) []model {
	all := slices.Clone(models)
	for i := range crowd {
		all = append(all, model{name: fmt.Sprintf("c%d", i), kvBlocks: 26, sleeps: true,
			idle: []uint32{2, 300}[i%2]})
	}
	return all
}

var priorities = []messages.PriorityClass{messages.PriorityClass_PRIORITY_CLASS_BATCH,
	messages.PriorityClass_PRIORITY_CLASS_STANDARD, messages.PriorityClass_PRIORITY_CLASS_STANDARD,
	messages.PriorityClass_PRIORITY_CLASS_INTERACTIVE}

// cluster is a run in progress.
type cluster struct {
	Options
	world    *World
	network  *Network
	server   *natskv.Server
	operator *operator
	rng      *rand.Rand // random numbers of the load
	names    []string
	nodes    map[string]*Node
	disks    map[string]*disk // by node; disks survive crashes of their node
	files    map[string]int   // by model or adapter: how many times other files were deployed
	models   []model
	held     natskv.Held // by the client of a node that has just started
	steps    stepFaults
	clientOf map[*natskv.Client]string // node, or the operator
	changed  uint64                    // what the planners had changed when the cluster was last checked for rest

	adapterFiles map[string]*adapterFiles // by node
	calls        []*Call
	requests     requests
	clients      []*httpClient
	checks       *checks
	result       Result
}

// maxElastic is the largest number of replicas that the planner may choose.
const maxElastic = 3

const (
	deviceBytes = 36 << 20
	dramBytes   = 512 << 10
	diskBytes   = 2 << 20
)

// Run runs a cluster under load and faults. It must be called in a testing/synctest bubble.
func Run(o Options) Result {
	w := NewWorld(o.Seed)
	w.trace.log = o.Trace
	c := &cluster{Options: o, world: w, network: NewNetwork(w), server: natskv.NewServer(time.Now),
		rng: rand.New(rand.NewPCG(o.Seed, 1)), nodes: make(map[string]*Node),
		disks: make(map[string]*disk), files: make(map[string]int), models: modelsOf(o.Crowd),
		clientOf:     make(map[*natskv.Client]string),
		adapterFiles: make(map[string]*adapterFiles)}
	c.requests.models = c.models
	c.requests.rng = rand.New(rand.NewPCG(o.Seed, 3))
	c.result.Refused = make(map[string]int)
	c.steps.injected = make(Seen)
	c.checks = newChecks(o.Calm)
	if o.PhaseCrash != nil {
		c.checks.watch = func(line []byte) { o.PhaseCrash.line(c, line) }
	}
	for i := range o.Nodes {
		c.names = append(c.names, fmt.Sprintf("n%d", i))
	}
	load := cmp.Or(o.Load, 15*time.Second)
	faults := rand.New(rand.NewPCG(o.Seed, 2))
	if c.result.Faults = o.Faults; o.Faults == nil {
		c.result.Faults = plan(faults, o, c.names, load)
	}
	c.checks.quiet = o.Calm && len(c.result.Faults) == 0
	c.checks.light = c.checks.quiet && !o.Busy
	keepReached()
	began := time.Now()
	c.operator = newOperator(w, c.server)
	c.clientOf[c.operator.client] = operatorName
	c.server.OnWrite(func(w natskv.Write) { c.checks.wrote(c.clientOf[w.Client], w) })
	for _, name := range c.names {
		c.start(name)
	}
	for _, m := range c.models {
		c.operator.Put(m.name, c.spec(m))
	}
	c.registerAdapters()
	w.Run(5*time.Second, never)
	c.checks.setSettled(true)
	c.held = c.nodes[c.names[0]].client.Held()
	c.schedule(load)
	w.Run(max(load, lastEnd(c.result.Faults))+calmDown, never)
	c.endFaults()
	faultless := time.Now()
	c.checks.countTurns()
	w.Run(settle, c.allEnded)
	if !c.allEnded() && c.activateForGood() {
		w.Run(settle, c.allEnded)
	}
	c.check()
	c.checkRest()
	c.checkServes()
	c.checkTurns()
	c.checkLivelock()
	c.checkElastic()
	c.survey()
	c.result.Rested = time.Since(faultless)
	c.checks.checkUnanswered()
	c.checks.setSettled(false)
	c.checkQuiet()
	c.result.Transitions = keepReached()
	c.result.Failures = append(c.result.Failures, c.checks.all()...)
	c.result.Virtual = time.Since(began)
	c.result.Trace, c.result.Steps = w.Trace(), w.Steps()
	c.result.Counts = c.count()
	for _, name := range c.names {
		if w.livelock != nil && !c.nodes[name].crashed {
			c.nodes[name].Crash()
		}
		c.nodes[name].Stop()
	}
	c.operator.stop()
	w.busy = 0
	w.Run(time.Minute, never)
	time.Sleep(time.Second) // goroutines of the actor systems end
	return c.result
}

func never() bool { return false }

// lastEnd returns when the last fault ends at the latest, after the start of the load.
func lastEnd(faults []Fault) (end time.Duration) {
	for _, f := range faults {
		switch f.Kind {
		case HangStep, StickStep, HangLoad, HangCapture: // from a step, load or capture on that begins within For
			f.For *= 2
		}
		end = max(end, f.At+f.For)
	}
	return end
}

func (c *cluster) spec(m model) *messages.DeploymentSpec {
	replicas, sequences, pages := m.replicas, uint32(maxSequences), proto.Uint32(adapterPages)
	least, most, idle := replicas, replicas, proto.Uint32(300)
	if m.sleeps {
		least, most, idle = 0, 1, &m.idle
	}
	if c.Elastic {
		least, most = min(1, replicas), max(1, min(replicas*maxElastic, maxElastic))
	}
	if c.LateAdapters {
		pages = nil
	}
	if m.kvBlocks == 0 {
		sequences = cmp.Or(c.MaxSequences, sequences)
	}
	return &messages.DeploymentSpec{Name: m.name, Path: c.path(m.name), Replicas: proto.Uint32(replicas),
		DefaultClass: messages.PriorityClass_PRIORITY_CLASS_STANDARD.Enum(), MaxSequences: proto.Uint32(sequences),
		MaxWaiting: proto.Uint32(maxWaiting), StepTokens: proto.Uint32(48), BlockTokens: proto.Uint32(blockTokens),
		KvBlocks: proto.Uint32(
			m.kvBlocks,
		), MinReplicas: proto.Uint32(least), MaxReplicas: proto.Uint32(most),
		AdapterPages: pages, IdleAfter: idle,
		MaxAdapters: proto.Uint32(4), MaxAdapterRank: proto.Uint32(8), Deploy: 1}
}

// path returns the current path of a model. Each path stands for different files.
func (c *cluster) path(name string) string { return modelPath(c.indexOf(name), c.files[name]) }

func (c *cluster) indexOf(name string) int {
	return slices.IndexFunc(c.models, func(m model) bool { return m.name == name })
}

func (c *cluster) start(name string) {
	if c.disks[name] == nil {
		c.disks[name] = newDisk(c.Seed, uint64(len(c.disks)))
		c.adapterFiles[name] = newAdapterFiles()
	}
	again := func() {
		c.world.at(time.Now().Add(time.Second), func() string { return "start " + name }, func() { c.start(name) })
	}
	tier, err := c.disks[name].open(name)
	if err != nil { // the node ends with this error, and is started again
		log := c.checks.logger(name, c.Log)
		log.Error().Err(err).Msg("node ended")
		again()
		return
	}
	devices := 1
	if c.Sources {
		devices = 2
	}
	n := StartNode(c.world, c.network, c.server, NodeConfig{Name: name, Devices: devices, sources: c.Sources,
		DeviceBytes: cmp.Or(c.DeviceBytes, deviceBytes), DRAMBytes: dramBytes,
		Log: c.checks.logger(name, c.Log), checks: c.checks,
		Failed: again, restore: kv.RestorePolicies()[c.Seed%2], tier: tier,
		hostCache:    int64(1+c.Seed%2) * weightBytes, // full with the images of one model, or of two
		adapterFiles: c.adapterFiles[name], planStep: c.planStep})
	c.nodes[name], c.clientOf[n.client] = n, name
}

// schedule distributes the calls and the faults over the duration of the load.
func (c *cluster) schedule(load time.Duration) {
	now := time.Now()
	var prompts [][]uint32
	var at time.Time
	for i := range c.Calls {
		if burst := c.rng.IntN(10) < 8; i == 0 || !burst {
			at = now.Add(time.Duration(c.rng.Int64N(int64(load))))
		} else {
			at = at.Add(time.Duration(c.rng.Int64N(int64(50 * time.Millisecond))))
		}
		if c.rng.IntN(directOdds) > 0 {
			c.scheduleClient(at)
			continue
		}
		if n := len(c.calls); n > 0 && c.rng.IntN(6) == 0 {
			again := c.calls[n-1].again(fmt.Sprintf("r%d", i))
			c.calls = append(c.calls, again)
			c.world.at(at, func() string { return "open " + again.ID }, func() { c.open(again) })
			continue
		}
		prompt, tokens := c.prompt(prompts), 60
		if c.Busy {
			prompt, tokens = c.longPrompt(), 150
		}
		prompts = append(prompts, prompt)
		m := c.models[c.rng.IntN(len(c.models))].name
		call := NewCall(fmt.Sprintf("r%d", i), m, prompt, 1+c.rng.IntN(tokens))
		call.setDeadline(c.rng, at)
		call.Sequence.Priority = priorities[c.rng.IntN(len(priorities))]
		call.node = c.names[c.rng.IntN(len(c.names))]
		call.Sequence.Adapter, call.Sequence.CacheSalt = pickAdapter(c.rng), pickSalt(c.rng)
		c.calls = append(c.calls, call)
		c.world.at(at, func() string { return "open " + call.ID }, func() { c.open(call) })
		if c.rng.IntN(8) == 0 {
			leaves := at.Add(time.Duration(c.rng.Int64N(int64(2 * time.Second))))
			c.world.at(leaves, func() string { return "close " + call.ID }, func() { c.close(call) })
		}
	}
	for _, f := range c.result.Faults {
		c.world.at(now.Add(f.At), f.String, func() { c.inject(f) })
	}
}

// prompt returns a prompt, which often starts like an earlier one.
func (c *cluster) prompt(earlier [][]uint32) (p []uint32) {
	if c.rng.IntN(3) == 0 {
		p = systemPrompt(c.rng.IntN(systemPrompts))
	} else if len(earlier) > 0 && c.rng.IntN(3) > 0 {
		old := earlier[c.rng.IntN(len(earlier))]
		p = slices.Clone(old[:c.rng.IntN(len(old)+1)])
	}
	for range 1 + c.rng.IntN(60) {
		p = append(p, uint32(firstText+c.rng.IntN(vocab-firstText)))
	}
	return p[:min(len(p), 200)]
}

func (c *cluster) open(call *Call) {
	n := c.nodes[call.node]
	call.started, call.opened = n, time.Now()
	call.newest = func() int { return c.files[call.Sequence.GetModel()] }
	if n.crashed || !n.ready.Load() {
		call.turnedAway = true
		return
	}
	if n.bindAdapter(call) {
		n.open(call)
	}
}

// close ends a call as a client does that disconnects.
func (c *cluster) close(call *Call) {
	if n := call.started; n != nil && !n.crashed && !call.Ended() {
		call.cancel()
		n.system.Root.Send(n.pid("node/direct/session-"+call.ID), &messages.CloseSession{RequestId: call.ID})
	}
}

// void reports whether a call cannot end well: its node was down or has crashed.
func (c *Call) void() bool { return c.turnedAway || c.started != nil && c.started.crashed }

func (c *cluster) allEnded() bool {
	for _, call := range c.calls {
		if !call.void() && !call.cancelled && !call.Ended() {
			return false
		}
	}
	return c.clientsEnded()
}

func modelOf(name string) model {
	for _, m := range models {
		if m.name == name {
			return m
		}
	}
	panic("no model " + name)
}
