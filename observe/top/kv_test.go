package top

import (
	"errors"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"troupe/messages"
)

// kvSeen shows a screen what a node answered under load, 0.9 s apart.
func kvSeen(t *testing.T) KV {
	t.Helper()
	k := NewKV(nil)
	for i, moment := range []string{"kv-1", "kv-2"} {
		s, err := ObserveKV(t.Context(), recorded(t, moment))
		if err != nil {
			t.Fatal(err)
		}
		s.Time = noon.Add(time.Duration(i) * 900 * time.Millisecond)
		k = k.See(s, nil)
	}
	return k
}

// TestKVFrames holds what is shown against golden files.
func TestKVFrames(t *testing.T) {
	golden(t, "kv.txt", ansi.Strip(kvSeen(t).Print())+"\n")
	gone := kvSeen(t).See(
		KVSample{
			noon.Add(3 * time.Second),
			&messages.KvStatsResponse{Nodes: []*messages.KvNode{{Node: "a", Unreachable: "no answer within 1s"}}},
		},
		nil,
	)
	golden(t, "kv-gone.txt", ansi.Strip(gone.See(KVSample{}, errors.New("nats: timeout")).Print())+"\n")
	golden(t, "kv-nothing.txt", ansi.Strip(NewKV(nil).Print())+"\n")
}

// TestKVScreen: it fits the terminal, and q ends it.
func TestKVScreen(t *testing.T) {
	m, _ := kvSeen(t).Update(tea.WindowSizeMsg{Width: 50, Height: 6})
	lines := strings.Split(ansi.Strip(m.View().Content), "\n")
	if len(lines) != 6 || lines[5] != "q quits" {
		t.Errorf("%q", lines)
	}
	for _, l := range lines {
		if lipgloss.Width(l) > 50 {
			t.Errorf("wider than 50: %q", l)
		}
	}
	if _, end := m.Update(tea.KeyPressMsg{Code: 'q', Text: "q"}); end == nil {
		t.Error("q does not end it")
	}
}
