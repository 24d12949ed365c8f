package residency

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"troupe/core/hbm"
	"troupe/testkit/script"
)

// TestScripts runs testdata/*.txt on a device of 10 pages. The weights of a model need 2 pages. The
// events are:
//
//	want LEASE MODEL [revision=X] [expected=X] [pages=N]    the copy is named by its number
//	grant LEASE COPY
//	loaded COPY [REVISION], load-failed COPY
//	activate LEASE COPY, standby LEASE COPY
//	gone LEASE COPY [spare | drop]
//	evict COPY, make-room PAGES, drop
//	read READER COPY, read-ended READER COPY, tick
//	released COPY, release-failed COPY
//	wait 1s
//
// The effects are followed by the copies.
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txt", func(t *testing.T) script.Handler {
		p := &player{t: t, now: time.Unix(1e9, 0), ledger: hbm.NewLedger(10 * hbm.PageBytes)}
		p.m = New(p.ledger, nil, 0, p.now)
		return p.play
	})
}

type player struct {
	t      *testing.T
	m      *Machine
	ledger *hbm.Ledger
	now    time.Time
}

func (p *player) play(line []string) (out []string) {
	words, named := []string{"", "", "", ""}, make(map[string]string)
	n := 0
	for _, w := range line[1:] {
		if name, value, ok := strings.Cut(w, "="); ok {
			named[name] = value
			continue
		}
		words[n] = w
		n++
	}
	for _, e := range p.event(line[0], words, named) {
		out = append(out, strings.TrimPrefix(fmt.Sprintf("%T%+v", e, e), "residency."))
	}
	return append(out, p.summary())
}

func (p *player) event(name string, words []string, named map[string]string) []Effect {
	m, lease, now := p.m, words[0], p.now
	switch name {
	case "want":
		pages := 2
		if n, ok := named["pages"]; ok {
			pages = int(p.number(n))
		}
		m.Want(lease, Source{Model: words[1], Path: words[1], Revision: named["revision"],
			Expected: named["expected"], Layout: "f32", Bytes: int64(pages) * hbm.PageBytes}, now)
		return nil
	case "grant":
		return m.Grant(lease, p.number(words[1]), now)
	case "loaded":
		return m.Loaded(p.number(words[0]), Content{Revision: words[1]}, now)
	case "load-failed":
		return m.LoadFailed(p.number(words[0]), now)
	case "activate":
		return m.Activate(lease, p.number(words[1]), now)
	case "standby":
		return m.Standby(lease, p.number(words[1]), now)
	case "gone":
		fate := map[string]Fate{
			"": Keep, "spare": Spare, "drop": Drop, "park": Park, "park-or-keep": ParkOrKeep,
		}[words[2]]
		return m.Gone(lease, p.number(words[1]), fate, now)
	case "evict":
		return m.Evict(p.number(words[0]), "", now)
	case "park":
		return m.Park(p.number(words[0]), "by command", now)
	case "make-room":
		return m.MakeRoom(int(p.number(words[0])), int(p.ledger.Free()/hbm.PageBytes), false, "needed", now)
	case "drop":
		return m.DropAll("the device is lost", now)
	case "read":
		return m.Read(lease, p.number(words[1]), now)
	case "read-ended":
		return m.ReadEnded(lease, p.number(words[1]), now)
	case "tick":
		return m.Tick(now)
	case "released":
		return m.Released(p.number(words[0]), now)
	case "release-failed":
		return m.ReleaseFailed(p.number(words[0]), now)
	case "wait":
		d, err := time.ParseDuration(words[0])
		if err != nil {
			p.t.Fatal(err)
		}
		p.now = p.now.Add(d)
		return nil
	}
	p.t.Fatalf("unknown event %s", name)
	return nil
}

func (p *player) number(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

func (p *player) summary() string {
	text := "="
	for _, c := range p.m.Copies() {
		text += fmt.Sprintf(" %d %s %s", c.Number, c.State, c.Level())
		for _, u := range c.Users {
			text += " " + u.Lease
		}
		for _, r := range c.Readers {
			text += " <" + r
		}
		text += ";"
	}
	return text + fmt.Sprintf(" %d free, %d counted", p.ledger.Free()/hbm.PageBytes, p.m.Counted()/hbm.PageBytes)
}
