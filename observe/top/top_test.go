package top

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"troupe/messages"
)

var update = flag.Bool("update", false, "rewrite golden files")

// recorded returns the recorded answers of three nodes: twice under load, 2.1 s apart ("load-1",
// "load-2"), and while the third was stopped by SIGSTOP and still a member ("silent").
func recorded(t *testing.T, moment string) Ask {
	return func(_ context.Context, endpoint string, _, answer proto.Message) error {
		b, err := os.ReadFile(filepath.Join("testdata", moment+"."+strings.TrimSuffix(endpoint, ".list")+".json"))
		if err != nil {
			t.Fatal(err)
		}
		return protojson.Unmarshal(b, answer)
	}
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// see adds a recorded sample to a model.
func see(t *testing.T, m Model, moment string, after time.Duration) Model {
	t.Helper()
	s, err := Observe(t.Context(), recorded(t, moment))
	if err != nil {
		t.Fatal(err)
	}
	s.Time = noon.Add(after)
	return m.WithSample(s, nil)
}

func loaded(t *testing.T) Model {
	return see(t, see(t, New(nil), "load-1", 0), "load-2", 2100*time.Millisecond)
}

func after(m Model, messages ...tea.Msg) Model {
	for _, msg := range messages {
		next, _ := m.Update(msg)
		m = next.(Model)
	}
	return m
}

// typed returns key presses: single characters, or named keys.
func typed(keys ...string) (all []tea.Msg) {
	special := map[string]rune{
		"tab": tea.KeyTab, "esc": tea.KeyEscape, "enter": tea.KeyEnter, "down": tea.KeyDown, "up": tea.KeyUp,
		"backspace": tea.KeyBackspace,
	}
	for _, k := range keys {
		if code, ok := special[k]; ok {
			all = append(all, tea.KeyPressMsg{Code: code})
			continue
		}
		for _, r := range k {
			all = append(all, tea.KeyPressMsg{Code: r, Text: string(r)})
		}
	}
	return all
}

var (
	standard = tea.WindowSizeMsg{Width: 80, Height: 24}
	small    = tea.WindowSizeMsg{Width: 60, Height: 12}
)

// TestFrames compares screens with golden files.
func TestFrames(t *testing.T) {
	silent := see(t, loaded(t), "silent", 30*time.Second)
	failing := loaded(t).WithSample(Sample{}, errors.New("nats: timeout"))
	half, err := Observe(t.Context(), func(ctx context.Context, endpoint string, req, answer proto.Message) error {
		if endpoint == "models.list" {
			return errors.New("no leader")
		}
		return recorded(t, "load-2")(ctx, endpoint, req, answer)
	})
	if err != nil {
		t.Fatal(err)
	}
	half.Time = noon
	for name, m := range map[string]Model{
		"standard": after(loaded(t), standard),
		"first":    after(see(t, New(nil), "load-1", 0), standard),
		"nothing":  after(New(nil), standard),
		"small":    after(loaded(t), small),
		"tiny":     after(loaded(t), tea.WindowSizeMsg{Width: 20, Height: 3}),
		"silent":   after(silent, standard),
		"failing":  after(failing, standard),
		"half":     after(New(nil).WithSample(half, nil), standard),
		"sorted":   after(loaded(t), append([]tea.Msg{standard}, typed("tab", "tab", "ssss")...)...),
		"reversed": after(loaded(t), append([]tea.Msg{standard}, typed("r")...)...),
		"typing":   after(loaded(t), append([]tea.Msg{standard}, typed("/", "C/gpuu", "backspace")...)...),
		"filtered": after(loaded(t), append([]tea.Msg{standard}, typed("/", "c/gpu", "enter")...)...),
		"scrolled": after(
			loaded(t),
			append([]tea.Msg{small}, typed("tab", "tab", "down", "down", "down", "down", "down", "down", "up")...)...,
		),
		"help": after(loaded(t), append([]tea.Msg{standard}, typed("?")...)...),
		"once": loaded(t),
	} {
		got := ansi.Strip(m.Print())
		if m.height > 0 {
			got = ansi.Strip(m.View().Content)
			fits(t, name, got, m)
		}
		golden(t, name+".txt", got+"\n")
	}
}

func fits(t *testing.T, name, frame string, m Model) {
	t.Helper()
	lines := strings.Split(frame, "\n")
	if len(lines) > m.height || !m.help && len(lines) != m.height {
		t.Errorf("%s: %d lines on a screen with %d", name, len(lines), m.height)
	}
	for _, l := range lines {
		if lipgloss.Width(l) > m.width {
			t.Errorf("%s: wider than %d: %q", name, m.width, l)
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s:\n%s", name, diff)
	}
}

// TestUnreachableIsRed checks that an unreachable node is red and that the focused section is
// coloured.
func TestUnreachableIsRed(t *testing.T) {
	screen := after(see(t, loaded(t), "silent", 30*time.Second), standard).View().Content
	for _, line := range strings.Split(screen, "\n") {
		red := strings.Contains(line, "\x1b[31m")
		if unreachable := strings.Contains(line, "unreachable"); unreachable != red {
			t.Errorf("red %v: %q", red, line)
		}
		if focus := strings.Contains(ansi.Strip(line), "NODE"); focus != strings.Contains(line, "\x1b[1;36m") {
			t.Errorf("focus %v: %q", focus, line)
		}
	}
}

func TestQuitKeys(t *testing.T) {
	for _, k := range []tea.KeyPressMsg{{Code: 'q', Text: "q"}, {Code: 'c', Mod: tea.ModCtrl}} {
		if _, cmd := New(nil).Update(k); cmd == nil || cmd() != (tea.QuitMsg{}) {
			t.Errorf("%s does not quit", k)
		}
	}
	if m := after(loaded(t), typed("/", "q")...); m.filter != "q" || !m.typing {
		t.Error("a q in the filter quits")
	}
}

// TestOneRequestAtATime checks that a tick does not start a second request while one is pending.
func TestOneRequestAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := func(m Model) (Model, bool) {
			next, cmd := m.Update(tick{})
			_, both := cmd().(tea.BatchMsg) // a request and the next tick; without a request it is the tick alone
			return next.(Model), both
		}
		m, again := requests(New(nil))
		if again {
			t.Error("asked again before the first answer")
		}
		m, again = requests(m.WithSample(Sample{}, errors.New("timeout")))
		if !again || m.lastErr == nil {
			t.Errorf("not asked again after %v", m.lastErr)
		}
	})
}

// TestProblemsAreShown checks that the reason for refused changes is on top, and that nodes that
// were lost, left or have a full disk are marked.
func TestProblemsAreShown(t *testing.T) {
	node := func(name string, state messages.MemberState) *messages.NodeStatus {
		return &messages.NodeStatus{Member: &messages.Member{Name: name, State: state}}
	}
	up := messages.MemberState_MEMBER_STATE_UP
	lost, left := node("c", messages.MemberState_MEMBER_STATE_LOST), node("d", messages.MemberState_MEMBER_STATE_LEFT)
	lost.Unreachable, left.Unreachable = "lost; last seen at 12:00:00", "left; last seen at 12:00:01"
	full := node("a", up)
	full.Disk = &messages.DiskStatus{Low: true, Stopped: true, Detail: "data folder /d has 0 B free"}
	ask := func(_ context.Context, endpoint string, _, answer proto.Message) error {
		if nodes, ok := answer.(*messages.ListNodesResponse); ok {
			nodes.Nodes = []*messages.NodeStatus{full, node("b", up), lost, left}
			nodes.Store = &messages.Refused{Reason: messages.Reason_REASON_NO_QUORUM, Detail: "1 of 3 NATS servers"}
		}
		return nil
	}
	s, err := Observe(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	s.Time = noon
	m := New(nil).WithSample(s, nil)
	golden(t, "troubles.txt", ansi.Strip(m.Print())+"\n")
	if lines := strings.Split(ansi.Strip(after(m, small).screen()), "\n"); len(lines) != small.Height ||
		!strings.HasPrefix(lines[0], "NO QUORUM; changes refused") {
		t.Errorf("%d lines, the first is %q", len(lines), lines[0])
	}
	r, err := m.Report()
	if err != nil || !strings.Contains(string(r.Store), "REASON_NO_QUORUM") {
		t.Errorf("%s, %v", r.Store, err)
	}
	if healthy, err := loaded(t).Report(); err != nil || healthy.Store != nil {
		t.Errorf("%s, %v", healthy.Store, err)
	}
}

func TestRates(t *testing.T) {
	sample := func(at time.Duration, in, out uint64) Sample {
		return Sample{
			Time:  noon.Add(at),
			Nodes: []*messages.NodeStatus{{Member: &messages.Member{Name: "a"}, TokensIn: in, TokensOut: out}},
		}
	}
	for _, tc := range []struct {
		before, after Sample
		want          Rate
	}{
		{sample(0, 10, 100), sample(2*time.Second, 20, 300), Rate{5, 100}},
		{sample(0, 10, 100), sample(time.Second, 4, 6), Rate{4, 6}}, // the node restarted
		{sample(0, 10, 100), sample(0, 20, 300), Rate{}},
		{Sample{}, sample(time.Second, 20, 300), Rate{}},
	} {
		if got := ratesBetween(tc.before, tc.after).nodes["a"]; got != tc.want {
			t.Errorf("%v, want %v", got, tc.want)
		}
	}
}

func TestShareLines(t *testing.T) {
	for _, tc := range []struct {
		left, focus int
		want, got   []int
	}{
		{20, 0, []int{3, 6, 4, 2}, []int{3, 6, 4, 2}},
		{10, 0, []int{9, 9, 9, 1}, []int{5, 2, 2, 1}},
		{10, 2, []int{9, 9, 9, 9}, []int{2, 2, 4, 2}},
		{0, 0, []int{1, 1}, []int{0, 0}},
		{-3, 0, []int{1, 1}, []int{0, 0}},
	} {
		if got := share(tc.left, tc.want, tc.focus); !cmp.Equal(got, tc.got) {
			t.Errorf("%d lines for %v with focus %d: %v, want %v", tc.left, tc.want, tc.focus, got, tc.got)
		}
	}
}
