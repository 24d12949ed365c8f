package tree

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"

	"troupe/messages"
)

// Text draws the tree for a terminal.
func Text(roots []*messages.ActorNode) string {
	rows := [][]string{{"ACTOR", "KIND", "STATE", "LIFE", "RESTARTS", "MAILBOX", "MESSAGES", "LAST FAILURE"}}
	for _, n := range roots {
		rows = draw(rows, n, "", "")
	}
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i >= 3 && i <= 6 { // numbers
				line.WriteString(pad + cell + "  ")
			} else {
				line.WriteString(cell + pad + "  ")
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// draw appends the rows of an actor and its children. First stands before the actor, rest before what is below it.
func draw(rows [][]string, n *messages.ActorNode, first, rest string) [][]string {
	failure := ""
	if f := n.GetLastFailure(); f != nil {
		failure = fmt.Sprintf("%s %s on %s", f.GetTime().AsTime().Local().Format("15:04:05"), oneLine(f.GetReason()), f.GetMessage())
	}
	rows = append(rows, []string{
		first + n.GetName(), n.GetKind(), stateName(n.GetState()), fmt.Sprint(n.GetIncarnation()), fmt.Sprint(n.GetRestarts()),
		fmt.Sprint(n.GetMailboxDepth()), fmt.Sprint(n.GetMessages()), failure,
	})
	for i, c := range n.GetChildren() {
		if i == len(n.GetChildren())-1 {
			rows = draw(rows, c, rest+"└─ ", rest+"   ")
		} else {
			rows = draw(rows, c, rest+"├─ ", rest+"│  ")
		}
	}
	return rows
}

func stateName(s messages.ActorState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "ACTOR_STATE_"))
}

const longestReason = 60

func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > longestReason {
		s = string(r[:longestReason]) + "…"
	}
	return s
}

// DOT writes the tree for Graphviz.
func DOT(roots []*messages.ActorNode) string {
	var b strings.Builder
	b.WriteString("digraph troupe {\n  rankdir=LR;\n  node [shape=box, fontname=\"Helvetica\"];\n")
	for _, n := range roots {
		dot(&b, n)
	}
	b.WriteString("}\n")
	return b.String()
}

func dot(b *strings.Builder, n *messages.ActorNode) {
	colour := "black"
	switch {
	case n.GetState() != messages.ActorState_ACTOR_STATE_RUNNING:
		colour = "red"
	case n.GetRestarts() > 0:
		colour = "orange"
	}
	fmt.Fprintf(b, "  %q [label=%q, color=%s];\n", n.GetId(),
		fmt.Sprintf("%s\n%s, life %d\n%d messages", n.GetName(), n.GetKind(), n.GetIncarnation(), n.GetMessages()), colour)
	for _, c := range n.GetChildren() {
		fmt.Fprintf(b, "  %q -> %q;\n", n.GetId(), c.GetId())
		dot(b, c)
	}
}

// JSON writes the tree as the JSON form of messages.TreeResponse, with stable white space.
func JSON(roots []*messages.ActorNode) ([]byte, error) {
	raw, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(&messages.TreeResponse{Roots: roots})
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
