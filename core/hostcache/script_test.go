package hostcache

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"troupe/testkit/script"
)

// TestScripts plays the scripts in testdata with a cache of 100 bytes. An image is named by its digest.
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txt", func(t *testing.T) script.Handler {
		p := &player{t: t, m: New(100)}
		return p.event
	})
}

type player struct {
	t *testing.T
	m *Machine
}

func (p *player) event(line []string) (out []string) {
	for _, e := range p.step(line) {
		out = append(out, text(e))
	}
	for _, i := range p.m.Images() {
		kept := ""
		if i.Pinned {
			kept = ", pinned"
		}
		for _, name := range i.Names {
			kept += ", " + name.Adapter
		}
		out = append(out, fmt.Sprintf("%s: %s, %d bytes, %d readers%s", i.Digest, i.State, i.Bytes, i.Readers, kept))
	}
	return out
}

func (p *player) step(line []string) []Effect {
	key, m := Key{Digest: line[1]}, p.m
	words := make(map[string]string)
	for _, word := range line[2:] {
		name, value, _ := strings.Cut(word, "=")
		words[name] = value
	}
	bytes, _ := strconv.ParseInt(words["bytes"], 10, 64)
	_, pinned := words["pinned"]
	switch line[0] {
	case "fill":
		return m.Fill(key, bytes, pinned)
	case "filled":
		return m.Filled(key, cmp.Or(words["as"], key.Digest))
	case "failed":
		return m.Failed(key, "read error")
	case "open":
		return m.Open(key, words["reader"])
	case "close":
		return m.Close(key, words["reader"])
	case "pin":
		return m.Pin(key)
	case "unpin":
		return m.Unpin(key)
	case "revoke":
		return m.Revoke(key, "damaged")
	case "await":
		return m.Await(key, words["waiter"])
	case "name":
		return m.Attach(key, Name{Adapter: words["as"]})
	case "forget":
		return m.Forget(Name{Adapter: line[1]}, "deleted")
	case "recovered":
		return m.Recovered(key, bytes, pinned)
	case "resize":
		budget, _ := strconv.ParseInt(line[1], 10, 64)
		return m.Resize(budget)
	}
	p.t.Fatalf("unknown event %s", line[0])
	return nil
}

func text(e Effect) string {
	switch e := e.(type) {
	case Reserve:
		return fmt.Sprintf("reserve %s, %d bytes", e.Key.Digest, e.Bytes)
	case Free:
		return fmt.Sprintf("free %s: %s", e.Key.Digest, e.Why)
	case Rename:
		return fmt.Sprintf("rename %s to %s", e.Key.Digest, e.As.Digest)
	case Attach:
		return fmt.Sprintf("%s is %s", e.Name.Adapter, e.Key.Digest)
	case Proceed:
		return e.Waiter + " proceeds"
	case Refuse:
		return fmt.Sprintf("refuse %s, %d bytes: %d of %d used, %d pinned, %d in use", e.Key.Digest, e.Bytes,
			e.Usage.Used, e.Usage.Budget, e.Usage.Pinned, e.Usage.InUse)
	case Ignored:
		return fmt.Sprintf("ignored %s of %s in %s: %s", e.Event, e.Key.Digest, e.State, e.Why)
	}
	return fmt.Sprintf("%T", e)
}
