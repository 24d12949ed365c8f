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

// kvLoaded returns a screen with two recorded samples of a node under load, 0.9 s apart.
func kvLoaded(t *testing.T) KV {
	t.Helper()
	k := NewKV(nil)
	for i, moment := range []string{"kv-1", "kv-2"} {
		s, err := ObserveKV(t.Context(), recorded(t, moment))
		if err != nil {
			t.Fatal(err)
		}
		s.Time = noon.Add(time.Duration(i) * 900 * time.Millisecond)
		k = k.WithSample(s, nil)
	}
	return k
}

// TestKVFrames compares the screen with golden files.
func TestKVFrames(t *testing.T) {
	golden(t, "kv.txt", ansi.Strip(kvLoaded(t).Print())+"\n")
	gone := kvLoaded(t).WithSample(
		KVSample{
			noon.Add(3 * time.Second),
			&messages.KvStatsResponse{Nodes: []*messages.KvNode{{Node: "a", Unreachable: "no answer within 1s"}}},
		},
		nil,
	)
	golden(t, "kv-gone.txt", ansi.Strip(gone.WithSample(KVSample{}, errors.New("nats: timeout")).Print())+"\n")
	golden(t, "kv-nothing.txt", ansi.Strip(NewKV(nil).Print())+"\n")
}

// TestKVScreenFitsAndQuits checks that the screen fits the terminal and that q quits.
func TestKVScreenFitsAndQuits(t *testing.T) {
	m, _ := kvLoaded(t).Update(tea.WindowSizeMsg{Width: 50, Height: 6})
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
		t.Error("q does not quit")
	}
}
