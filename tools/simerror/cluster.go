package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"troupe/messages"
	"troupe/observe/record"
	"troupe/recording"
	"troupe/workload"
)

// startTimeout bounds the start of the nodes, and of replicas.
const startTimeout = time.Minute

// cluster is a cluster of node processes.
type cluster struct {
	nodes []*exec.Cmd
	http  map[string]string // addresses by name of the node
	conn  *nats.Conn
	to    []string // addresses of the nodes without replicas, at which requests come in
}

// nodeOptions are further options of the nodes of a cluster, which has as many nodes.
type nodeOptions [][]string

// withDevice returns the options of a number of nodes with a device each.
func withDevice(count int) (all nodeOptions) {
	for range count {
		all = append(all, []string{"--devices", device})
	}
	return all
}

// startCluster starts nodes. The first one runs the NATS server.
func startCluster(ctx context.Context, binary, dir string, options nodeOptions) (c *cluster, err error) {
	c = &cluster{http: make(map[string]string)}
	defer func() {
		if err != nil {
			c.stop()
		}
	}()
	server, err := freeAddress()
	if err != nil {
		return nil, err
	}
	for i, more := range options {
		name := fmt.Sprintf("n%d", i+1)
		at, err := freeAddress()
		if err != nil {
			return nil, err
		}
		args := []string{"up", "--name", name, "--data", filepath.Join(dir, name), "--http", at}
		args = append(args, more...)
		if i == 0 {
			args = append(args, "--nats-listen", server)
		} else {
			args = append(args, "--join", "nats://"+server)
		}
		if err := c.startNode(dir, name, binary, args); err != nil {
			return nil, err
		}
		c.http[name] = at
		if i == 0 {
			err := until(ctx, "the NATS server", func() (err error) {
				c.conn, err = nats.Connect("nats://" + server)
				return err
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return c, until(ctx, "all nodes", func() error {
		all := &messages.ListNodesResponse{}
		err := c.ask(ctx, "nodes.list", &messages.ListNodesRequest{}, all)
		if err == nil && len(all.GetNodes()) != len(options) {
			err = fmt.Errorf("%d of %d nodes", len(all.GetNodes()), len(options))
		}
		return err
	})
}

func (c *cluster) startNode(dir, name, binary string, args []string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(binary, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C stops this program, which stops the nodes
	if err := cmd.Start(); err != nil {
		return err
	}
	c.nodes = append(c.nodes, cmd)
	return nil
}

// stop ends all nodes.
func (c *cluster) stop() {
	if c.conn != nil {
		c.conn.Close()
	}
	for _, n := range c.nodes {
		_ = n.Process.Kill() // it may have ended
		_ = n.Wait()
	}
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// until repeats a check until it succeeds.
func until(ctx context.Context, what string, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// ask asks the control service.
func (c *cluster) ask(ctx context.Context, endpoint string, request, answer proto.Message) error {
	body, err := protojson.Marshal(request) // control.Encode would reset fields that are not set
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	reply, err := c.conn.RequestWithContext(ctx, "troupe.v1."+endpoint, body)
	if err != nil {
		return err
	}
	if refused := reply.Header.Get("Nats-Service-Error"); refused != "" {
		return errors.New(refused)
	}
	return (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(reply.Data, answer)
}

// scale deploys the model with a number of replicas, and waits until they serve.
func (c *cluster) scale(ctx context.Context, replicas int) error {
	folder, err := filepath.Abs(model)
	if err != nil {
		return err
	}
	spec := &messages.DeploymentSpec{Name: deployed, Path: folder, KvBlocks: new(uint32(kvBlocks))}
	return c.deploy(ctx, spec, replicas)
}

// deploy deploys a model with a number of replicas, and waits until they serve.
func (c *cluster) deploy(ctx context.Context, spec *messages.DeploymentSpec, replicas int) error {
	spec.Replicas = new(uint32(replicas))
	spec.MinReplicas, spec.MaxReplicas = spec.Replicas, spec.Replicas
	err := c.ask(ctx, "models.deploy", &messages.DeployModelRequest{Deployment: spec}, &messages.DeployModelResponse{})
	if err != nil {
		return err
	}
	return until(ctx, "the replicas", func() error {
		all := &messages.GetModelResponse{}
		if err := c.ask(ctx, "models.get", &messages.GetModelRequest{Name: spec.GetName()}, all); err != nil {
			return err
		}
		serving, idle := 0, maps.Clone(c.http)
		for _, p := range all.GetModel().GetReplicas() {
			if p.GetState() == messages.ReplicaState_REPLICA_STATE_SERVING {
				serving++
				delete(idle, p.GetNode())
			}
		}
		if serving != replicas {
			return fmt.Errorf("%d of %d replicas serve: %s", serving, replicas, all.GetModel().GetDetail())
		}
		if c.to = slices.Sorted(maps.Values(idle)); len(c.to) == 0 { // all are busy
			c.to = slices.Sorted(maps.Values(c.http))
		}
		return nil
	})
}

// events returns the events of the cluster.
func (c *cluster) events() (<-chan *messages.Event, error) {
	const most = 4096
	events := make(chan *messages.Event, most)
	_, err := c.conn.Subscribe("troupe.v1.events.>", func(m *nats.Msg) {
		e := &messages.Event{}
		if (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(m.Data, e) != nil {
			return
		}
		select {
		case events <- e:
		default: // the figures of Lives will be too low, which the page shows
		}
	})
	return events, err
}

// record sends requests at their times, and records them.
func (c *cluster) record(ctx context.Context, path string, requests []workload.Request) error {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer out.Close()
	w := recording.NewWriter(out)
	recorded, end := context.WithCancel(ctx)
	defer end()
	begun, done := make(chan struct{}), make(chan error, 1)
	first := true
	events, err := c.events()
	if err != nil {
		return err
	}
	go func() {
		progress := func(record.Statistics) {
			if first {
				close(begun)
			}
			first = false
		}
		_, err := (&record.Recorder{Ask: c.ask, Out: w, Events: events, Troupe: "simerror",
			Progress: progress}).Run(recorded)
		done <- errors.Join(err, w.Close())
	}()
	select {
	case <-begun:
	case err := <-done:
		return err
	}
	sent := c.send(ctx, requests)
	end()
	return errors.Join(sent, <-done)
}
