package top

import (
	"context"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
)

const (
	every       = time.Second     // between two samples
	askedWithin = 8 * time.Second // a sample; a node that hangs may be asked first
)

// Model is the state of the screen. It implements tea.Model.
type Model struct {
	ask    Ask
	asking bool

	before, now Sample
	lost        error // why there is nothing newer than now

	width, height int
	focus         int // section that keys act on
	orders        [4]order
	offset        int // rows scrolled by, in the focused section
	filter        string
	typing, help  bool
}

// New returns a screen that has seen nothing yet.
func New(ask Ask) Model { return Model{ask: ask, asking: true} }

type (
	tick    struct{}
	sampled struct {
		sample Sample
		err    error
	}
)

// Init implements tea.Model.
func (m Model) Init() tea.Cmd { return tea.Batch(m.observe, later()) }

func (m Model) observe() tea.Msg {
	ctx, cancel := context.WithTimeout(context.Background(), askedWithin)
	defer cancel()
	s, err := Observe(ctx, m.ask)
	return sampled{s, err}
}

func later() tea.Cmd { return tea.Tick(every, func(time.Time) tea.Msg { return tick{} }) }

// Update implements tea.Model.
func (m Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tick:
		if m.asking {
			return m, later()
		}
		m.asking = true
		return m, tea.Batch(m.observe, later())
	case sampled:
		return m.WithSample(msg.sample, msg.err), nil
	case tea.KeyPressMsg:
		if m.typing {
			return m.typed(msg), nil
		}
		return m.pressed(msg)
	}
	return m, nil
}

// WithSample takes up a sample, or why there is none.
func (m Model) WithSample(s Sample, err error) Model {
	m.asking, m.lost = false, err
	if err == nil {
		m.before, m.now = m.now, s
	}
	return m
}

// typed edits the filter.
func (m Model) typed(k tea.KeyPressMsg) Model {
	switch k.String() {
	case "enter":
		m.typing = false
	case "esc":
		m.typing, m.filter = false, ""
	case "backspace":
		if r := []rune(m.filter); len(r) > 0 {
			m.filter = string(r[:len(r)-1])
		}
	default:
		m.filter += k.Text
	}
	m.offset = 0
	return m
}

var keys = struct{ next, previous, up, down, sort, reverse, filter, clear, help, quit key.Binding }{
	next:     binding("tab", "next section", "tab"),
	previous: binding("shift+tab", "previous section", "shift+tab"),
	up:       binding("↑", "scroll up", "up", "k"),
	down:     binding("↓", "scroll down", "down", "j"),
	sort:     binding("s", "sort by the next column", "s"),
	reverse:  binding("r", "reverse the order", "r"),
	filter:   binding("/", "filter", "/"),
	clear:    binding("esc", "clear the filter", "esc"),
	help:     binding("?", "help", "?"),
	quit:     binding("q", "quit", "q", "ctrl+c"),
}

func binding(name, does string, keys ...string) key.Binding {
	return key.NewBinding(key.WithKeys(keys...), key.WithHelp(name, does))
}

func (m Model) pressed(k tea.KeyPressMsg) (tea.Model, tea.Cmd) {
	by := &m.orders[m.focus]
	switch {
	case key.Matches(k, keys.quit):
		return m, tea.Quit
	case m.help: // any other key leaves it
		m.help = false
	case key.Matches(k, keys.help):
		m.help = true
	case key.Matches(k, keys.next):
		m.focus, m.offset = (m.focus+1)%len(m.orders), 0
	case key.Matches(k, keys.previous):
		m.focus, m.offset = (m.focus+len(m.orders)-1)%len(m.orders), 0
	case key.Matches(k, keys.up):
		m.offset = max(0, m.offset-1)
	case key.Matches(k, keys.down):
		m.offset = min(m.offset+1, m.furthest())
	case key.Matches(k, keys.sort):
		columns := sections(m.now, rates{})[m.focus].columns
		*by = order{column: (by.column + 1) % len(columns)}
	case key.Matches(k, keys.reverse):
		by.reverse = !by.reverse
	case key.Matches(k, keys.filter):
		m.typing, m.filter, m.offset = true, "", 0
	case key.Matches(k, keys.clear):
		m.filter, m.offset = "", 0
	}
	return m, nil
}
