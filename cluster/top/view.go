package top

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/help"
	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
	"github.com/charmbracelet/x/ansi"
)

const (
	barWidth = 10
	// frame is how many lines of the screen are no rows: title and keys.
	frame = 2
	gap   = "  "
)

var (
	bold   = lipgloss.NewStyle().Bold(true)
	accent = lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Cyan)
	faint  = lipgloss.NewStyle().Faint(true)
	moods  = map[mood]lipgloss.Style{
		well: lipgloss.NewStyle(), uneasy: lipgloss.NewStyle().Foreground(lipgloss.Yellow), bad: lipgloss.NewStyle().Foreground(lipgloss.Red),
	}
)

// View implements tea.Model.
func (m Model) View() tea.View {
	v := tea.NewView(m.screen())
	v.AltScreen, v.WindowTitle = true, "troupe"
	return v
}

// Print returns everything there is to see, as wide as it is.
func (m Model) Print() string { return m.body() }

// screen is a frame of exactly the terminal's height.
func (m Model) screen() string {
	if m.help {
		return m.helpPage()
	}
	lines := strings.Split(m.body(), "\n")
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	lines = append(lines[:max(0, m.height-1)], m.footer())
	for i, l := range lines {
		lines[i] = ansi.Truncate(l, m.width, "…")
	}
	return strings.Join(lines, "\n")
}

// body is the title and the sections: whole where the height is 0, else as much of each as there is room for.
func (m Model) body() string {
	lines := []string{m.title()}
	tables, rows := m.arranged()
	spaced, room := m.room(rows)
	for i, t := range tables {
		if spaced {
			lines = append(lines, "")
		}
		lines = append(lines, m.table(t, i, rows[i], room[i])...)
	}
	return strings.Join(lines, "\n")
}

func (m Model) arranged() ([]section, [][]row) {
	tables := sections(m.now, between(m.before, m.now))
	rows := make([][]row, len(tables))
	for i, t := range tables {
		rows[i] = t.arranged(m.orders[i], m.filter)
	}
	return tables, rows
}

// room says whether there are blank lines between sections, and how many lines each one's rows get.
func (m Model) room(rows [][]row) (spaced bool, room []int) {
	want := make([]int, len(rows))
	for i, r := range rows {
		want[i] = len(r)
	}
	if m.height == 0 {
		return true, want
	}
	left := m.height - frame - len(rows)
	if spaced = left >= 3*len(rows); spaced {
		left -= len(rows)
	}
	return spaced, share(left, want, m.focus)
}

// share deals lines out one by one, two at a time to the focus, until all is shown or nothing is left.
func share(left int, want []int, focus int) []int {
	got := make([]int, len(want))
	for left > 0 && !slices.Equal(got, want) {
		for i := range want {
			turns := 1
			if i == focus {
				turns = 2
			}
			for ; turns > 0 && left > 0 && got[i] < want[i]; turns-- {
				got[i]++
				left--
			}
		}
	}
	return got
}

// furthest is by how many rows the focused section can be scrolled.
func (m Model) furthest() int {
	_, rows := m.arranged()
	_, room := m.room(rows)
	if here := room[m.focus]; here < len(rows[m.focus]) {
		return len(rows[m.focus]) - max(0, here-1)
	}
	return 0
}

// table is the header and as many rows as fit into room lines; the last of them says how many are not shown.
func (m Model) table(t section, i int, rows []row, room int) []string {
	shown, more := rows, 0
	if room < len(rows) {
		from := 0
		if i == m.focus {
			from = min(m.offset, len(rows)-max(0, room-1))
		}
		shown = rows[from:min(len(rows), from+max(0, room-1))]
		more = len(rows) - len(shown)
	}
	lines := strings.Split(m.drawn(t, i, shown), "\n")
	if more > 0 && room > 0 {
		lines = append(lines, faint.Render(fmt.Sprintf("… %d more", more)))
	}
	return lines
}

func (m Model) drawn(t section, i int, rows []row) string {
	headers := make([]string, len(t.columns))
	for c, column := range t.columns {
		headers[c] = column.name
		if by := m.orders[i]; by.column == c && by != (order{}) {
			headers[c] += map[bool]string{false: "▾", true: "▴"}[by.reverse]
		}
	}
	cells := make([][]string, len(rows))
	for r, row := range rows {
		for c, cell := range row.cells {
			text := cell.text
			if t.columns[c].bar {
				text = bar(cell.share) + " " + text
			}
			cells[r] = append(cells[r], text)
		}
	}
	style := func(r, c int) lipgloss.Style {
		s := bold
		switch {
		case r != table.HeaderRow:
			s = moods[rows[r].mood]
		case i == m.focus && m.height > 0:
			s = accent
		}
		s = s.PaddingRight(len(gap))
		if t.columns[c].numeric && !t.columns[c].bar {
			s = s.Align(lipgloss.Right)
		}
		return s
	}
	return table.New().Headers(headers...).Rows(cells...).StyleFunc(style).Wrap(false).
		Border(lipgloss.Border{}).BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).BorderColumn(false).BorderHeader(false).String()
}

func bar(share float64) string {
	full := int(math.Round(barWidth * min(1, share)))
	return strings.Repeat("█", full) + strings.Repeat("░", barWidth-full)
}

func (m Model) title() string {
	if m.now.Time.IsZero() {
		if m.lost != nil {
			return moods[bad].Render("no answer: " + m.lost.Error())
		}
		return faint.Render("asking …")
	}
	gone, gpus, sessions, total := 0, 0, 0, Rate{}
	r := between(m.before, m.now)
	for _, n := range m.now.Nodes {
		if n.GetUnreachable() != "" {
			gone++
		}
		gpus += len(n.GetGpus())
		sessions += int(n.GetSessions())
		total.In += r.nodes[n.GetMember().GetName()].In
		total.Out += r.nodes[n.GetMember().GetName()].Out
	}
	parts := []string{bold.Render("troupe " + m.now.Time.Format(time.TimeOnly)), count(len(m.now.Nodes), "node")}
	if gone > 0 {
		parts = append(parts, moods[bad].Render(fmt.Sprintf("%d unreachable", gone)))
	}
	parts = append(parts, count(gpus, "GPU"), count(sessions, "session"),
		fmt.Sprintf("tokens/s %s in %s out", short(total.In), short(total.Out)))
	for _, err := range []error{m.now.Err, m.lost} {
		if err != nil {
			parts = append(parts, moods[bad].Render(strings.ReplaceAll(err.Error(), "\n", "; ")))
		}
	}
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
	all := []key.Binding{keys.next, keys.previous, keys.up, keys.down, keys.sort, keys.reverse, keys.filter, keys.clear, keys.help, keys.quit}
	return bold.Render("Keys") + "\n\n" + help.New().FullHelpView([][]key.Binding{all}) + `

The header of the section that keys act on is coloured. Yellow is not as it
should be, red does not work at all.

RUN, WAIT  sequences in the batch, and queued    SESS  open calls at the gateway
KV         KV blocks in use                      LIFE  1 until the first crash
HITS       prompt tokens found in KV blocks      ON    where the deployment lives
IN/s       prompt tokens computed per second     OUT/s tokens generated`
}
