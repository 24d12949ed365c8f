package tree

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"troupe/messages"
)

// Text renders the trees of nodes for a terminal, with a summary in the last line.
func Text(roots []*messages.ActorNode) string {
	t := drawing{
		rows: [][]string{{"ACTOR", "KIND", "STATE", "LIFE", "RESTARTS", "MAILBOX", "MESSAGES", "LAST FAILURE"}},
	}
	for i, n := range roots {
		if i > 0 {
			t.rows = append(t.rows, nil)
		}
		t.draw(n, "", "")
	}
	return t.table() + "\n" + t.summary(len(roots)) + "\n"
}

// drawing is a table of actors and the totals counted while drawing.
type drawing struct {
	rows                                   [][]string
	actors, restarts, crashed, unreachable uint64
	faulty                                 uint64
}

// draw appends the rows of an actor and its children. first is the prefix of the actor's row, rest
// that of the rows below.
func (t *drawing) draw(n *messages.ActorNode, first, rest string) {
	if n.GetUnreachable() != "" {
		t.unreachable++
		t.rows = append(t.rows, []string{first + n.GetName(), n.GetKind(), "UNREACHABLE: " + n.GetUnreachable()})
		return
	}
	failure := n.GetFault()
	if failure != "" {
		t.faulty++
	}
	if f := n.GetLastFailure(); f != nil {
		t.crashed++
		if failure != "" {
			failure += "; "
		}
		failure += fmt.Sprintf("%s %s on %s", f.GetTime().AsTime().Local().Format("15:04:05"),
			oneLine(f.GetReason()), f.GetMessage())
	}
	t.actors += 1 + uint64(n.GetFolded())
	t.restarts += n.GetRestarts()
	t.rows = append(t.rows, []string{
		first + n.GetName(), kindOf(n), stateOf(n), fmt.Sprint(n.GetIncarnation()),
		fmt.Sprint(n.GetRestarts()),
		fmt.Sprint(n.GetMailboxDepth()), fmt.Sprint(n.GetMessages()), failure,
	})
	for i, w := range n.GetWeights() {
		branch := "├─ "
		if i == len(n.GetWeights())-1 && len(n.GetChildren()) == 0 && n.GetFolded() == 0 {
			branch = "└─ "
		}
		t.rows = append(t.rows, []string{rest + branch + w.GetOwner(), "weights " + w.GetModel(), weightsText(w)})
	}
	for i, c := range n.GetChildren() {
		if i == len(n.GetChildren())-1 && n.GetFolded() == 0 {
			t.draw(c, rest+"└─ ", rest+"   ")
		} else {
			t.draw(c, rest+"├─ ", rest+"│  ")
		}
	}
	if n.GetFolded() > 0 {
		t.rows = append(t.rows, []string{fmt.Sprintf("%s└─ … %d more sessions", rest, n.GetFolded())})
	}
}

// table aligns the columns. A short row does not widen its last column.
func (t *drawing) table() string {
	widths := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, cell := range row {
			if i == 0 || i < len(row)-1 || len(row) == len(widths) {
				widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			}
		}
	}
	var b strings.Builder
	for _, row := range t.rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(cell)))
			if i >= 3 && i <= 6 { // numbers are right-aligned
				line.WriteString(pad + cell + "  ")
			} else {
				line.WriteString(cell + pad + "  ")
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

func (t *drawing) summary(nodes int) string {
	s := fmt.Sprintf(
		"%s, %s, %s",
		count(uint64(nodes), "node"),
		count(t.actors, "actor"),
		count(t.restarts, "restart"),
	)
	if t.crashed > 0 {
		s += fmt.Sprintf(", %d with a failure", t.crashed)
	}
	if t.faulty > 0 {
		s += fmt.Sprintf(", %d faulty", t.faulty)
	}
	if t.unreachable > 0 {
		s += fmt.Sprintf(", %d unreachable", t.unreachable)
	}
	return s
}

func count(n uint64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// kindOf returns an actor's kind and the object that it serves.
func kindOf(n *messages.ActorNode) string { return strings.TrimSpace(n.GetKind() + " " + n.GetOf()) }

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
