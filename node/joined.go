package node

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/encoding/protojson"

	"troupe/cluster/bucket"
	"troupe/cluster/members"
	"troupe/cluster/reply"
	"troupe/cluster/store"
	"troupe/control"
	"troupe/control/catalogue"
	"troupe/engine/residency"
	"troupe/messages"
	"troupe/node/availability"
	"troupe/node/bus"
	"troupe/node/membership"
	"troupe/node/steps"
	"troupe/node/stored"
)

// joined has the parts of a node that connect it to the cluster and its store. They do not depend
// on actors.
type joined struct {
	*local
	bus          *bus.Bus
	store        *store.Store
	stopKeeper   func() // stops the job that keeps the stored state
	events       *control.Events
	members      *members.Members
	nodes        *membership.Nodes
	availability *availability.Store
	drained      stored.Drained
	plannerPause stored.PlannerPause
	pins         stored.Pins
	secret       *stored.Secret
	catalogue    *catalogue.Catalogue
	adapters     *stored.Followers
	canaries     *residency.Canaries
}

// publish publishes an event.
func (c *joined) publish(kind, subject, detail string) { c.events.Publish(kind, subject, detail) }

func (c *joined) openBus(ctx context.Context) (err error) {
	c.bus, err = bus.Open(ctx, bus.Config{
		Node: c.cfg.Name, DataDir: c.cfg.DataDir, Join: c.cfg.Join, Listen: c.cfg.NATSListen,
		ClusterListen: c.cfg.NATSClusterListen, Routes: c.cfg.NATSRoutes, UsersFile: c.cfg.NATSUsers,
		InboxPrefixes: c.cfg.NATSInboxPrefixes, TLS: c.cfg.TLS, Login: c.cfg.Login,
		Audit: c.audit, Registry: c.metrics, Log: c.cfg.Log, Runtime: c.cfg.Runtime,
	})
	return err
}

// askPeer returns the answer of another node to nodes.list.
func (c *joined) askPeer(ctx context.Context) (*messages.ListNodesResponse, error) {
	answer, err := reply.AskPeer(ctx, c.cfg.Runtime, c.bus.Conn(), "troupe.v1.nodes.list", nil)
	if err != nil {
		return nil, err
	}
	res := &messages.ListNodesResponse{}
	return res, protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(answer.Data, res)
}

func (c *joined) openStore(ctx context.Context) error {
	client, err := bucket.NewClient(c.bus.Conn(), c.cfg.Runtime)
	if err != nil {
		return err
	}
	c.store, err = store.Open(ctx, client, store.Config{
		Folder: c.cfg.DataDir, Copy: c.bus.StoreCopy(), Log: c.cfg.Log, Runtime: c.cfg.Runtime,
	})
	return err
}

func (c *joined) openEvents(context.Context) error {
	c.events = control.NewEvents(c.bus.Conn(), c.cfg.Name, c.cfg.Runtime)
	c.metrics.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "troupe_nats_events_dropped_total", Help: "Events not published because too many were queued.",
	}, func() float64 { return float64(c.events.Dropped()) }))
	c.bus.PublishTo(c.publish)
	c.audit.Publish(c.publish)
	return nil
}

func (c *joined) closeEvents() {
	c.audit.Flush()
	c.audit.Publish(nil)
	c.events.Stop()
}

// keepStore restores stored state that is lost.
func (c *joined) keepStore(context.Context) error {
	c.stopKeeper = steps.Background(c.cfg.Runtime, func(ctx context.Context) {
		c.store.Run(ctx, func(kind, detail string) { c.publish(kind, store.Bucket, detail) })
	})
	return nil
}

// openMembers opens the membership registry. The node joins later, once its actors run.
func (c *joined) openMembers(ctx context.Context) error {
	client, err := bucket.NewClient(c.bus.Conn(), c.cfg.Runtime)
	if err != nil {
		return err
	}
	about := membership.Description{
		Address: c.web.Address(), DataAddress: c.bulk.Address(), NATSURL: c.bus.ServerURL(),
		Advertise: c.cfg.Advertise, Version: c.cfg.Version, Started: c.started, GPUs: c.gpus.Names(),
		InboxPrefixes: c.bus.InboxPrefixes,
	}
	seen, limit := c.store.Terms()
	c.members, err = members.Open(ctx, client, members.Config{
		Name: c.cfg.Name, Instance: c.cfg.Instance, Describe: about.Fill, Log: c.cfg.Log,
		SeenTerm: seen, TermLimit: limit,
		OnEvent: func(kind, detail string) { c.publish(kind, members.Bucket, detail) }, Runtime: c.cfg.Runtime,
	})
	if err != nil {
		return err
	}
	c.nodes = &membership.Nodes{
		Self: c.cfg.Name, Live: c.members.Live, Departed: c.members.Departed, Drained: &c.drained,
	}
	c.availability = &availability.Store{
		Server: c.bus, Members: c.members, Lost: c.store.Lost, Runtime: c.cfg.Runtime,
	}
	c.bus.SetAnnounce(c.members.Describe)
	if err = c.store.TrackTerms(ctx, c.members.HighestTerm); err != nil {
		c.members.Close()
	}
	return err
}

func (c *joined) openSecret(ctx context.Context) (err error) {
	c.secret, err = stored.OpenSecret(ctx, c.store, c.cfg.DataDir, c.cfg.Runtime, c.cfg.Log)
	return err
}

// followAdapters watches the stored adapters, and waits until all of them are read.
func (c *joined) followAdapters(ctx context.Context) error {
	c.adapters = stored.NewFollowers(c.cfg.Runtime, c.cfg.Log)
	c.adapters.Start(stored.Adapters(c.store, c.catalogue.Apply), func() {})
	err := c.catalogue.Await(ctx, "", "", func(*messages.AdapterSpec) bool { return true })
	if err != nil {
		c.adapters.Stop()
	}
	return err
}
