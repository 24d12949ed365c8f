package node

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"troupe/actors/hostcache"
	"troupe/cluster/bulk"
	"troupe/core/backend"
	"troupe/core/cost"
	simulateddevice "troupe/cuda/simulated"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/engine/simulated"
	"troupe/modelfile/digest"
	"troupe/node/adapteruse"
	"troupe/node/auditlog"
	"troupe/node/costs"
	"troupe/node/gpus"
	"troupe/node/httpd"
	"troupe/node/membership"
	"troupe/node/metrics"
	"troupe/node/tiers"
)

// local has the parts of a node that need neither the cluster nor actors. The start steps fill them
// in.
type local struct {
	cfg     Config
	started time.Time
	metrics *prometheus.Registry
	copies  *metrics.Copies
	wakes   *metrics.Wakes
	plans   *metrics.Plans

	adapterUse adapteruse.Record
	loader     engine.Loader // of native models
	digests    digest.Cache  // digests of model files

	gpus  *gpus.GPUs
	web   *httpd.Server
	audit *auditlog.Log
	bulk  *bulk.Plane
	tiers *tiers.Tiers

	others *hostcache.OtherNodes // with images of weights
}

func newLocal(cfg Config) *local {
	l := &local{cfg: cfg, started: cfg.Runtime.Now(), metrics: prometheus.NewRegistry(), loader: cfg.Loader}
	if l.loader == nil {
		l.loader = llama.Loader{Roots: cfg.Roots, Digests: &l.digests}
	}
	l.metrics.MustRegister(metrics.GoRuntime(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	l.copies, l.wakes = metrics.NewCopies(l.metrics), metrics.NewWakes(l.metrics)
	l.plans = metrics.NewPlans(l.metrics)
	return l
}

// loaderOf returns the loader of models for a kind of engine.
func (l *local) loaderOf(kind backend.Kind) engine.Loader {
	if kind == backend.Simulated {
		return simulated.Loader{Roots: l.cfg.Roots, Digests: &l.digests, Clock: l.cfg.Runtime}
	}
	return l.loader
}

// costs returns the costs of steps that this node knows.
func (l *local) costs() *costs.Costs {
	loader := simulated.Loader{Roots: l.cfg.Roots}
	return &costs.Costs{Profiles: l.cfg.Profiles, Simulated: l.cfg.SimulatedDevices,
		Predict: func(path string, on simulateddevice.Config) (cost.Steps, error) {
			return loader.Steps(path, on.Profile, on.Group)
		}}
}

// advertised returns an address in the form in which other nodes can reach it.
func (l *local) advertised(address string) string {
	return membership.Advertised(address, l.cfg.Advertise)
}

// inspect reads the properties of a model from its folder.
func (l *local) inspect(kind backend.Kind, path string) (engine.ModelInfo, error) {
	return l.gpus.Inspect(kind, path)
}

// imageOf returns an image of the files that a folder had, of the given revision if there is one, or nil.
func (l *local) imageOf(path, revision string) *engine.Image {
	on := l.gpus.All()[0].Info()
	if i := l.gpus.Images().Find(revision, on); i != nil && i.Path == path {
		return i
	}
	if i := l.gpus.DiskImages().Find(revision, on); i != nil && i.Path == path {
		return i
	}
	if i := l.gpus.Images().FindFolder(path, on); i != nil {
		return i
	}
	return l.gpus.DiskImages().FindFolder(path, on)
}

// imageOfRevision returns the image of a model's files, from this node or another one, or nil.
func (l *local) imageOfRevision(revision string) *engine.Image {
	on := l.gpus.All()[0].Info()
	if i := l.gpus.Images().Find(revision, on); i != nil {
		return i
	}
	if i := l.gpus.DiskImages().Find(revision, on); i != nil {
		return i
	}
	if i := l.gpus.FindWeights(revision, on); i != nil || l.others == nil {
		return i
	}
	return l.others.Header(revision, on)
}

func (l *local) takeDevices(context.Context) error {
	l.gpus = gpus.New(l.loaderOf, l.cfg.GPUs...)
	return nil
}

func (l *local) openSoftwareDevices(context.Context) error {
	err := l.gpus.OpenSoftware(l.cfg.Devices)
	if err == nil {
		err = l.gpus.OpenSimulated(l.cfg.SimulatedDevices)
	}
	if err == nil {
		l.gpus.OpenHostCache()
	}
	if err == nil && l.cfg.WeightsDiskBytes > 0 {
		err = l.gpus.OpenDiskImages(l.cfg.WeightsDiskPath)
	}
	return err
}

func (l *local) openWeb(context.Context) (err error) {
	web := l.cfg.WebConfig
	l.web, err = httpd.Open(httpd.Config{
		Address: l.cfg.HTTP, Listener: l.cfg.HTTPListener, TLS: l.cfg.HTTPTLS, Limits: web.Limits,
		Metrics: web.Metrics, Hosts: web.Hosts, Keyed: l.cfg.Keys != nil, Advertise: l.cfg.Advertise,
		Registry: l.metrics, Log: l.cfg.Log, Runtime: l.cfg.Runtime,
	})
	return err
}

func (l *local) openAudit(context.Context) (err error) {
	l.audit, err = auditlog.Open(auditlog.Config{
		Node: l.cfg.Name, File: l.cfg.AuditLog, Registry: l.metrics, Log: l.cfg.Log,
	})
	if err != nil {
		return err
	}
	if l.cfg.Keys != nil {
		l.cfg.Keys.OnChange(l.audit.Reloaded("API keys"))
	}
	if l.cfg.TLS != nil {
		l.cfg.TLS.OnChange(l.audit.Reloaded("certificates"))
	}
	return nil
}

func (l *local) openBulk(context.Context) (err error) {
	cfg := bulk.Config{
		Listen: l.cfg.DataListen, Advertise: l.advertised(l.cfg.DataListen), Log: l.cfg.Log, Runtime: l.cfg.Runtime,
	}
	if l.cfg.TLS != nil {
		cfg.ServerTLS, cfg.ClientTLS = l.cfg.TLS.Node(), l.cfg.TLS.ClientOf
	}
	if l.bulk, err = bulk.Listen(cfg); err != nil {
		return fmt.Errorf("bulk data: %w; give another address with --data-listen", err)
	}
	return nil
}

func (l *local) openTiers(context.Context) (err error) {
	l.tiers, err = tiers.Open(l.cfg.Tiers, l.gpus.AllocHost, l.cfg.Log)
	return err
}
