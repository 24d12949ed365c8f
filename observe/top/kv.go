package top

import (
	"context"
	"math"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"troupe/messages"
)

// KVSample is where KV blocks are at one moment.
type KVSample struct {
	Time time.Time
	*messages.KvStatsResponse
}

// ObserveKV asks for a sample.
func ObserveKV(ctx context.Context, ask Ask) (KVSample, error) {
	answer := &messages.KvStatsResponse{}
	err := ask(ctx, "kv.stats", &messages.KvStatsRequest{}, answer)
	return KVSample{time.Now(), answer}, err
}

// KV is a screen with the KV tiers and what moves between them. It implements tea.Model.
type KV struct {
	ask           Ask
	asking        bool
	before, now   KVSample
	lost          error // why there is nothing newer than now
	width, height int
}

// NewKV returns a screen that has seen nothing yet.
func NewKV(ask Ask) KV { return KV{ask: ask, asking: true} }

type kvSampled struct {
	sample KVSample
	err    error
}

// Init implements tea.Model.
func (k KV) Init() tea.Cmd { return tea.Batch(k.observe, later()) }

func (k KV) observe() tea.Msg {
	ctx, cancel := context.WithTimeout(context.Background(), askedWithin)
	defer cancel()
	s, err := ObserveKV(ctx, k.ask)
	return kvSampled{s, err}
}

// Update implements tea.Model.
func (k KV) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		k.width, k.height = msg.Width, msg.Height
	case tick:
		if k.asking {
			return k, later()
		}
		k.asking = true
		return k, tea.Batch(k.observe, later())
	case kvSampled:
		return k.WithSample(msg.sample, msg.err), nil
	case tea.KeyPressMsg:
		if key.Matches(msg, keys.quit) {
			return k, tea.Quit
		}
	}
	return k, nil
}

// WithSample takes up a sample, or why there is none.
func (k KV) WithSample(s KVSample, err error) KV {
	k.asking, k.lost = false, err
	if err == nil {
		k.before, k.now = k.now, s
	}
	return k
}

// View implements tea.Model.
func (k KV) View() tea.View {
	lines := strings.Split(k.body(), "\n")
	if most := max(0, k.height-1); len(lines) > most {
		lines = lines[:most]
	}
	v := tea.NewView(fit(append(lines, faint.Render("q quits")), k.width))
	v.AltScreen, v.WindowTitle = true, "troupe kv"
	return v
}

// Print returns everything there is to see, as wide as it is.
func (k KV) Print() string { return fit(strings.Split(k.body(), "\n"), math.MaxInt) }

func (k KV) body() string {
	if k.now.Time.IsZero() {
		if k.lost != nil {
			return moods[bad].Render("no answer: " + k.lost.Error())
		}
		return faint.Render("asking …")
	}
	title := bold.Render("troupe kv " + k.now.Time.Format(time.TimeOnly))
	if k.lost != nil {
		title += gap + moods[bad].Render(k.lost.Error())
	}
	parts := []string{title}
	for i, t := range []section{tierSection(k.now), pathSection(k.before, k.now), blockSection(k.now), pinSection(k.now)} {
		if len(t.rows) > 0 {
			parts = append(parts, Model{}.drawn(t, i, t.rows))
		}
	}
	return strings.Join(parts, "\n\n")
}
