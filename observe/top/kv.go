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

// KVSample is the state of the KV tiers at one moment.
type KVSample struct {
	Time time.Time
	*messages.KvStatsResponse
}

// ObserveKV requests a sample.
func ObserveKV(ctx context.Context, ask Ask) (KVSample, error) {
	answer := &messages.KvStatsResponse{}
	err := ask(ctx, "kv.stats", &messages.KvStatsRequest{}, answer)
	return KVSample{time.Now(), answer}, err
}

// KV is a screen with the KV tiers and the copies between them. It implements tea.Model.
type KV struct {
	ask           Ask
	pending       bool
	before, now   KVSample
	lastErr       error // error of the latest sample; nil if now is the latest
	width, height int
}

// NewKV returns a screen without samples.
func NewKV(ask Ask) KV { return KV{ask: ask, pending: true} }

type kvSampled struct {
	sample KVSample
	err    error
}

// Init implements tea.Model.
func (k KV) Init() tea.Cmd { return tea.Batch(k.observe, nextTick()) }

func (k KV) observe() tea.Msg {
	ctx, cancel := context.WithTimeout(context.Background(), sampleTimeout)
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
		if k.pending {
			return k, nextTick()
		}
		k.pending = true
		return k, tea.Batch(k.observe, nextTick())
	case kvSampled:
		return k.WithSample(msg.sample, msg.err), nil
	case tea.KeyPressMsg:
		if key.Matches(msg, keys.quit) {
			return k, tea.Quit
		}
	}
	return k, nil
}

// WithSample returns the model with a new sample, or with the error of a failed one.
func (k KV) WithSample(s KVSample, err error) KV {
	k.pending, k.lastErr = false, err
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

// Print returns the full content at its natural width.
func (k KV) Print() string { return fit(strings.Split(k.body(), "\n"), math.MaxInt) }

func (k KV) body() string {
	if k.now.Time.IsZero() {
		if k.lastErr != nil {
			return styles[critical].Render("no answer: " + k.lastErr.Error())
		}
		return faint.Render("waiting for the first answer …")
	}
	title := bold.Render("troupe kv " + k.now.Time.Format(time.TimeOnly))
	if k.lastErr != nil {
		title += gap + styles[critical].Render(k.lastErr.Error())
	}
	parts := []string{title}
	all := []section{tierSection(k.now), pathSection(k.before, k.now), blockSection(k.now), pinSection(k.now)}
	for i, t := range all {
		if len(t.rows) > 0 {
			parts = append(parts, Model{}.render(t, i, t.rows))
		}
	}
	return strings.Join(parts, "\n\n")
}
