package top

import (
	"context"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
)

const (
	sampleInterval = time.Second     // between two samples
	sampleTimeout  = 8 * time.Second // of one sample; enough to try another node if the first one hangs
)

// Model is the state of the screen. It implements tea.Model.
type Model struct {
	ask     Ask
	pending bool

	before, now Sample
	lastErr     error // error of the latest sample; nil if now is the latest

	width, height int
	focus         int // section that keys apply to
	orders        [4]order
	offset        int // rows scrolled in the focused section
	filter        string
	typing, help  bool
}

// New returns a screen without samples.
func New(ask Ask) Model { return Model{ask: ask, pending: true} }

type (
	tick    struct{}
	sampled struct {
		sample Sample
		err    error
	}
)

// Init implements tea.Model.
func (m Model) Init() tea.Cmd { return tea.Batch(m.observe, nextTick()) }

func (m Model) observe() tea.Msg {
	ctx, cancel := context.WithTimeout(context.Background(), sampleTimeout)
	defer cancel()
	s, err := Observe(ctx, m.ask)
	return sampled{s, err}
}

func nextTick() tea.Cmd { return tea.Tick(sampleInterval, func(time.Time) tea.Msg { return tick{} }) }

// Update implements tea.Model.
func (m Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tick:
		if m.pending {
			return m, nextTick()
		}
		m.pending = true
		return m, tea.Batch(m.observe, nextTick())
	case sampled:
		return m.WithSample(msg.sample, msg.err), nil
	case tea.KeyPressMsg:
		if m.typing {
			return m.editFilter(msg), nil
		}
		return m.handleKey(msg)
	}
	return m, nil
}

// WithSample returns the model with a new sample, or with the error of a failed one.
func (m Model) WithSample(s Sample, err error) Model {
	m.pending, m.lastErr = false, err
	if err == nil {
		m.before, m.now = m.now, s
	}
	return m
}

// editFilter edits the filter.
func (m Model) editFilter(k tea.KeyPressMsg) Model {
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

func (m Model) handleKey(k tea.KeyPressMsg) (tea.Model, tea.Cmd) {
	by := &m.orders[m.focus]
	switch {
	case key.Matches(k, keys.quit):
		return m, tea.Quit
	case m.help: // any other key closes the help
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
		m.offset = min(m.offset+1, m.maxOffset())
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
