package lora

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"troupe/testkit/script"
)

// TestScripts runs testdata/*.txt on a pool. The events are:
//
//	pool PAGES [grow]              a new pool
//	granted PAGE..., not-granted, retry
//	shrink PAGES
//	register A [PAGES], delete A
//	inspect A, inspected A [PAGES], inspect-failed A
//	recover A PAGE...
//	pin REQUEST A, unpin REQUEST
//	request A, prefetch N          t=1s sets the clock
//	want A=SCORE..., tick          likewise
//	loaded A [failed], evicted A
//
// The effects are followed by the adapters whose state has changed, with their pages.
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txt", func(t *testing.T) script.Handler {
		p := &player{t: t, now: time.Unix(1e9, 0)}
		return p.event
	})
}

// player runs the events of a script.
type player struct {
	t      *testing.T
	p      *Pool
	now    time.Time
	states map[string]string // as last shown
}

func (p *player) event(words []string) (out []string) {
	if at, ok := strings.CutPrefix(words[len(words)-1], "t="); ok {
		d, err := time.ParseDuration(at)
		if err != nil {
			p.t.Fatal(err)
		}
		p.now, words = time.Unix(1e9, 0).Add(d), words[:len(words)-1]
	}
	if words[0] == "pool" {
		var cfg Config
		for i := range p.number(words, 1) {
			cfg.Pages = append(cfg.Pages, uint32(i))
		}
		cfg.Grow = slices.Contains(words, "grow")
		p.p, p.states = NewPool(cfg), make(map[string]string)
		return nil
	}
	ignored := p.p.Ignored()
	out = p.step(words)
	if p.p.Ignored() > ignored {
		out = append(out, "ignored")
	}
	for _, a := range p.p.Actions() {
		out = append(out, text(a))
	}
	return append(out, p.changes()...)
}

func (p *player) step(words []string) (out []string) {
	pool, id := p.p, strings.Join(words[1:min(2, len(words))], "")
	answer := func(state State, refusal *Refusal) []string {
		if refusal != nil {
			return []string{"refused: " + refusal.Detail}
		}
		return []string{state.String()}
	}
	switch words[0] {
	case "register":
		if refusal := pool.Register(id, pageLayout(p.number(words, 2))); refusal != nil {
			return answer(0, refusal)
		}
	case "inspect":
		pool.Inspect(id)
	case "inspected":
		if refusal := pool.Inspected(id, pageLayout(p.number(words, 2))); refusal != nil {
			return answer(0, refusal)
		}
	case "inspect-failed":
		if refusal := pool.InspectFailed(id, errors.New("damaged")); refusal != nil {
			return answer(0, refusal)
		}
	case "delete":
		return []string{fmt.Sprint(pool.Delete(id))}
	case "recover":
		var pages []uint32
		for i := range words[2:] {
			pages = append(pages, uint32(p.number(words, 2+i)))
		}
		return []string{fmt.Sprint(pool.Recover(id, pages))}
	case "pin":
		return answer(pool.Pin(words[1], words[2]))
	case "unpin":
		pool.Unpin(id)
	case "request":
		pool.Requested(id, p.now)
	case "want":
		var all []Wanted
		for _, word := range words[1:] {
			id, score, _ := strings.Cut(word, "=")
			all = append(all, Wanted{id, float64(p.number([]string{score}, 0))})
		}
		pool.Want(all, p.now)
	case "tick":
		return []string{fmt.Sprint(pool.Tick(p.now))}
	case "prefetch":
		return []string{fmt.Sprint(pool.Prefetch(p.number(words, 1), p.now))}
	case "loaded":
		if len(words) > 2 {
			pool.Loaded(id, Disk, errors.New("damaged"))
		} else {
			pool.Loaded(id, Disk, nil)
		}
	case "evicted":
		pool.Evicted(id)
	case "shrink":
		pool.Shrink(p.number(words, 1))
	case "not-granted":
		pool.NotGranted()
	case "retry":
		pool.Retry()
	case "granted":
		var pages []uint32
		for i := range words[1:] {
			pages = append(pages, uint32(p.number(words, 1+i)))
		}
		pool.Granted(pages)
	default:
		p.t.Fatalf("unknown event %q", words[0])
	}
	return nil
}

// number returns a word as a number; 1 if there is none.
func (p *player) number(words []string, i int) int {
	if i >= len(words) {
		return 1
	}
	n, err := strconv.Atoi(words[i])
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

func text(a Action) string {
	switch a := a.(type) {
	case Inspect:
		return "inspect " + a.Adapter
	case Load:
		return "load " + a.Adapter
	case Evict:
		return "evict " + a.Adapter
	case Grow:
		return fmt.Sprintf("grow by %d", a.Pages)
	case GiveBack:
		return fmt.Sprintf("give back %v", a.Pages)
	case Shrunk:
		return "shrunk"
	case Ready:
		return a.Request + " is ready"
	case Lost:
		return fmt.Sprintf("%s is lost: %s", a.Request, a.Refusal.Detail)
	}
	return fmt.Sprintf("%#v", a)
}

// changes lists the adapters whose state has changed.
func (p *player) changes() (out []string) {
	now := make(map[string]string)
	var ids []string
	for id, a := range p.p.adapters {
		pages := slices.Sorted(slices.Values(a.pages))
		now[id] = strings.TrimSuffix(fmt.Sprintf("%s %v", a.state, pages), " []")
		ids = append(ids, id)
	}
	for id := range p.states {
		if _, ok := now[id]; !ok {
			now[id], ids = Unregistered.String(), append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		if now[id] != p.states[id] {
			out = append(out, id+" "+now[id])
		}
		if p.states[id] = now[id]; now[id] == Unregistered.String() {
			delete(p.states, id)
		}
	}
	return out
}
