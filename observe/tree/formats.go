package tree

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"

	"troupe/messages"
)

// DOT renders the trees for Graphviz, with a box around each node's tree.
func DOT(roots []*messages.ActorNode) string {
	var b strings.Builder
	b.WriteString("digraph troupe {\n  rankdir=LR;\n  node [shape=box, fontname=\"Helvetica\"];\n")
	for _, n := range roots {
		label := n.GetName()
		if n.GetUnreachable() != "" {
			label += ": " + n.GetUnreachable()
		}
		fmt.Fprintf(&b, "  subgraph %q {\n  label=%q;\n", "cluster_"+n.GetName(), label)
		dot(&b, n.GetName()+":", n)
		b.WriteString("  }\n")
	}
	b.WriteString("}\n")
	return b.String()
}

// dot writes an actor and its children. The prefix makes their ids unique among nodes.
func dot(b *strings.Builder, prefix string, n *messages.ActorNode) {
	colour := "black"
	switch {
	case n.GetState() != messages.ActorState_ACTOR_STATE_RUNNING || n.GetFault() != "":
		colour = "red"
	case n.GetRestarts() > 0 || n.GetLastFailure() != nil:
		colour = "orange"
	}
	fmt.Fprintf(
		b,
		"  %q [label=%q, color=%s];\n",
		prefix+n.GetId(),
		fmt.Sprintf(
			"%s\n%s, life %d\n%d messages",
			n.GetName(),
			kindOf(n),
			n.GetIncarnation(),
			n.GetMessages(),
		),
		colour,
	)
	for _, c := range n.GetChildren() {
		fmt.Fprintf(b, "  %q -> %q;\n", prefix+n.GetId(), prefix+c.GetId())
		dot(b, prefix, c)
	}
	dotWeights(b, prefix, n)
	if n.GetFolded() > 0 {
		more := prefix + n.GetId() + "/…"
		fmt.Fprintf(
			b,
			"  %q [label=\"… %d more sessions\", shape=plain];\n  %q -> %q;\n",
			more,
			n.GetFolded(),
			prefix+n.GetId(),
			more,
		)
	}
}

// JSON renders the trees as the JSON form of messages.TreeResponse, with stable white space.
func JSON(roots []*messages.ActorNode) ([]byte, error) {
	raw, err := protojson.MarshalOptions{
		UseProtoNames:   true,
		EmitUnpopulated: true,
	}.Marshal(
		&messages.TreeResponse{Roots: roots},
	)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}
