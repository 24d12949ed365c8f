package top

import (
	"fmt"
	"math"
	"strings"
	"time"

	"charm.land/bubbles/v2/help"
	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

const (
	barWidth = 10
	// frame is the number of screen lines that show no rows: title and keys.
	frame = 2
	gap   = "  "
)

var (
	bold   = lipgloss.NewStyle().Bold(true)
	accent = lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Cyan)
	faint  = lipgloss.NewStyle().Faint(true)
	styles = map[severity]lipgloss.Style{
		normal: lipgloss.NewStyle(), warning: lipgloss.NewStyle().Foreground(lipgloss.Yellow),
		critical: lipgloss.NewStyle().Foreground(lipgloss.Red),
	}
)

// View implements tea.Model.
func (m Model) View() tea.View {
	v := tea.NewView(m.screen())
	v.AltScreen, v.WindowTitle = true, "troupe"
	return v
}

// Print returns the full content at its natural width.
func (m Model) Print() string { return fit(strings.Split(m.body(), "\n"), math.MaxInt) }

// screen returns a frame of exactly the terminal's height.
func (m Model) screen() string {
	if m.help {
		return m.helpPage()
	}
	lines := strings.Split(m.body(), "\n")
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	lines = append(lines[:max(0, m.height-1)], m.footer())
	return fit(lines, m.width)
}

// fit joins lines without trailing blanks and truncates those that are too wide.
func fit(lines []string, width int) string {
	for i, l := range lines {
		if full := lipgloss.Width(strings.TrimRight(ansi.Strip(l), " ")); full <= width {
			lines[i] = ansi.Truncate(l, full, "")
		} else {
			lines[i] = ansi.Truncate(l, width, "…")
		}
	}
	return strings.Join(lines, "\n")
}

// body returns the title and the sections. With height 0 it is complete, else it contains as many
// rows as fit.
func (m Model) body() string {
	lines := append(m.alarm(), m.title())
	tables, rows := m.visible()
	spaced, room := m.distribute(rows)
	for i, t := range tables {
		if spaced {
			lines = append(lines, "")
		}
		lines = append(lines, m.table(t, i, rows[i], room[i])...)
	}
	return strings.Join(lines, "\n")
}

func (m Model) visible() ([]section, [][]row) {
	tables := sections(m.now, ratesBetween(m.before, m.now))
	rows := make([][]row, len(tables))
	for i, t := range tables {
		rows[i] = t.visible(m.orders[i], m.filter)
	}
	return tables, rows
}

func (m Model) title() string {
	if m.now.Time.IsZero() {
		if m.lastErr != nil {
			return styles[critical].Render("no answer: " + m.lastErr.Error())
		}
		return faint.Render("waiting for the first answer …")
	}
	gone, departed, gpus, sessions, total := 0, 0, 0, 0, Rate{}
	r := ratesBetween(m.before, m.now)
	for _, n := range m.now.Nodes {
		switch {
		case hasLeft(n):
			departed++
		case n.GetUnreachable() != "":
			gone++
		}
		gpus += len(n.GetGpus())
		sessions += int(n.GetSessions())
		total.In += r.nodes[n.GetMember().GetName()].In
		total.Out += r.nodes[n.GetMember().GetName()].Out
	}
	parts := []string{bold.Render("troupe " + m.now.Time.Format(time.TimeOnly))}
	for _, err := range []error{m.now.Err, m.lastErr} {
		if err != nil {
			parts = append(parts, styles[critical].Render(strings.ReplaceAll(err.Error(), "\n", "; ")))
		}
	}
	parts = append(parts, count(len(m.now.Nodes)-departed, "node"))
	if gone > 0 {
		parts = append(parts, styles[critical].Render(fmt.Sprintf("%d unreachable", gone)))
	}
	parts = append(parts, count(gpus, "GPU"), count(sessions, "session"),
		fmt.Sprintf("tokens/s %s in %s out", compact(total.In), compact(total.Out)))
	return strings.Join(parts, gap)
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func (m Model) footer() string {
	switch {
	case m.typing:
		return accent.Render("/" + m.filter + "▏")
	case m.filter != "":
		return accent.Render("/"+m.filter) + faint.Render("  esc clears")
	}
	return help.New().ShortHelpView([]key.Binding{keys.next, keys.sort, keys.filter, keys.help, keys.quit})
}

func (m Model) helpPage() string {
	all := []key.Binding{
		keys.next, keys.previous, keys.up, keys.down, keys.sort, keys.reverse, keys.filter, keys.clear, keys.help,
		keys.quit,
	}
	return fit(strings.Split(bold.Render("Keys")+"\n\n"+help.New().FullHelpView([][]key.Binding{all})+`

The header of the section that keys apply to is coloured. Yellow lines need
attention, red lines have failed.

SESS  open calls at the gateway       KV    blocks in use
RUN   sequences in the batch          HITS  prompt tokens found in KV blocks
WAIT  sequences queued                IN/s  prompt tokens computed per second
LIFE  starts, 1 without a crash       ON    node of the deployment actor
LORA  adapters on the GPU             TIME  share of the GPU's time in steps
HOST  host memory with weights and adapters
UTIL  share of the GPU's peak rates that the steps of the last minute used`, "\n"), m.width)
}
