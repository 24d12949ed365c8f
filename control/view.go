package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"troupe/actors/supervise"
	"troupe/cluster/reply"
	"troupe/messages"
	"troupe/observe/tree"
)

// nodeTimeout is how long a node waits for the answer of another node, which it otherwise shows as
// unreachable.
const nodeTimeout = time.Second

// View shows the whole cluster from one node. It asks all nodes concurrently: the local node
// directly and the others at troupe.v1.node.<name>. A node that does not answer is shown with the
// reason, and does not make the whole request fail. View is safe for concurrent use.
type View struct {
	Conn    *nats.Conn
	Backend Backend
	Node    string
	Runtime supervise.Runtime // nil: supervise.System
}

func (v *View) runtime() supervise.Runtime { return supervise.OrSystem(v.Runtime) }

// Nodes returns the status of every member, ordered by name, followed by the nodes that recently
// left or were lost.
func (v *View) Nodes(ctx context.Context) []*messages.NodeStatus {
	return append(askAll(ctx, v.runtime(), v.members(), v.nodeStatus), v.Backend.Departed()...)
}

// node returns the status of one member.
func (v *View) node(ctx context.Context, m *messages.Member) *messages.NodeStatus {
	return askAll(ctx, v.runtime(), []*messages.Member{m}, v.nodeStatus)[0]
}

// Gpus returns every GPU, ordered by node.
func (v *View) Gpus(ctx context.Context) (all []*messages.GpuStatus) {
	for _, n := range askAll(ctx, v.runtime(), v.members(), v.nodeStatus) {
		all = append(all, n.GetGpus()...)
		if n.GetUnreachable() != "" {
			for _, name := range n.GetMember().GetGpus() {
				all = append(
					all,
					&messages.GpuStatus{Name: name, Node: n.GetMember().GetName(), Unreachable: n.GetUnreachable()},
				)
			}
		}
	}
	return all
}

// HostAdapters returns the copies of adapters in the host memory of each node that has some.
func (v *View) HostAdapters(ctx context.Context) (all []*messages.HostAdapters) {
	for _, n := range askAll(ctx, v.runtime(), v.members(), v.nodeStatus) {
		if c := n.GetHostCache(); c.GetAdapterCopies() > 0 {
			all = append(all, &messages.HostAdapters{
				Node: n.GetMember().GetName(), Copies: c.GetAdapterCopies(), Bytes: c.GetAdapterBytes(),
			})
		}
	}
	return all
}

// Tree returns the actor tree of every node, or of the named one. Unless whole is set, healthy
// sessions are folded.
func (v *View) Tree(ctx context.Context, node string, whole bool) ([]*messages.ActorNode, error) {
	members, err := v.membersNamed(node)
	if err != nil {
		return nil, err
	}
	return askAll(ctx, v.runtime(), members, func(ctx context.Context, m *messages.Member) *messages.ActorNode {
		return v.nodeTree(ctx, m.GetName(), whole)
	}), nil
}

// membersNamed returns the member with a name, or all members if the name is empty.
func (v *View) membersNamed(node string) ([]*messages.Member, error) {
	members := v.members()
	if node == "" {
		return members, nil
	}
	i := slices.IndexFunc(members, func(m *messages.Member) bool { return m.GetName() == node })
	if i < 0 {
		return nil, v.unknownNode(node)
	}
	return members[i : i+1], nil
}

func (v *View) unknownNode(name string) error {
	var names []string
	for _, m := range v.members() {
		names = append(names, m.GetName())
	}
	return Refuse(
		messages.Reason_REASON_NOT_FOUND,
		fmt.Sprintf("node %q is not in the cluster; its members are: %s", name, strings.Join(names, ", ")),
	)
}

func (v *View) members() []*messages.Member {
	return slices.SortedFunc(
		slices.Values(v.Backend.Members()),
		func(a, b *messages.Member) int { return cmp.Compare(a.GetName(), b.GetName()) },
	)
}

// askAll is like fanOut, with a timeout of nodeTimeout.
func askAll[A any](
	ctx context.Context, rt supervise.Runtime, members []*messages.Member,
	ask func(context.Context, *messages.Member) A,
) []A {
	ctx, cancel := rt.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	return fanOut(ctx, rt, members, ask)
}

// fanOut calls ask for all members concurrently and returns the answers in the order of members.
func fanOut[A any](
	ctx context.Context, rt supervise.Runtime, members []*messages.Member,
	ask func(context.Context, *messages.Member) A,
) []A {
	answers := make([]A, len(members))
	var asked sync.WaitGroup
	for i, m := range members {
		supervise.GoIn(rt, &asked, func() { answers[i] = ask(ctx, m) })
	}
	asked.Wait()
	return answers
}

func (v *View) nodeStatus(ctx context.Context, m *messages.Member) *messages.NodeStatus {
	var status *messages.NodeStatus
	var err error
	if m.GetName() == v.Node {
		status, err = v.Backend.NodeStatus(ctx)
	} else {
		answer := &messages.NodeStatusResponse{}
		err = v.ask(ctx, m.GetName()+".status", &messages.NodeStatusRequest{}, answer)
		status = answer.GetNode()
	}
	if err != nil {
		return &messages.NodeStatus{
			Member:      m,
			Unreachable: unreachableReason(err),
			LastSeen:    v.Backend.LastSeen(m.GetName()),
		}
	}
	return status
}

func (v *View) nodeTree(ctx context.Context, name string, whole bool) *messages.ActorNode {
	if name == v.Node {
		return v.localTree(ctx, whole)
	}
	answer := &messages.NodeTreeResponse{}
	if err := v.ask(ctx, name+".tree", &messages.NodeTreeRequest{Whole: whole}, answer); err != nil {
		return &messages.ActorNode{Name: name, Id: "node", Kind: "node", Unreachable: unreachableReason(err)}
	}
	return answer.GetRoot()
}

// localTree returns the actor tree of this node.
func (v *View) localTree(ctx context.Context, whole bool) *messages.ActorNode {
	root := tree.Root(v.Node, v.Backend.Tree())
	tree.AddWeights(root, v.Backend.Weights(ctx))
	tree.AddFaults(root, v.Backend.Faults(ctx))
	if !whole {
		tree.Fold(root)
	}
	return root
}

// ask sends a request to the control service of one node.
func (v *View) ask(ctx context.Context, subject string, request, answer proto.Message) error {
	body, err := Encode(request)
	if err != nil {
		return err
	}
	answered, err := reply.AskPeer(ctx, v.runtime(), v.Conn, nodeSubject+subject, body)
	if err != nil {
		return err
	}
	if refused := answered.Header.Get(micro.ErrorHeader); refused != "" {
		return errors.New(refused)
	}
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(answered.Data, answer)
}

// unreachableReason returns why a node did not answer, as text for people.
func unreachableReason(err error) string {
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return "not connected to NATS"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return fmt.Sprintf("no answer within %s", nodeTimeout)
	}
	return err.Error()
}
