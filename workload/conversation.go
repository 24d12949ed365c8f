package workload

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
)

// Conversation describes requests that continue earlier ones: their prompts begin with the prompt and
// output of a request before. The lengths of prompts are not changed by it: a request continues a
// conversation that is shorter than its prompt, if there is one. The zero value means that no request does.
type Conversation struct {
	Turns  float64 // mean number of requests of a conversation, at least 1, if all find one to continue
	System int     // tokens with which all prompts of a model begin
	Open   int     // conversations of a model that may continue; the oldest ends for a new one; 0: 256
	Block  int     // tokens of a hash in Request.Prefix; 0: 512
}

const (
	defaultOpen  = 256
	defaultBlock = 512
)

func (c Conversation) check() error {
	switch {
	case c == Conversation{}:
		return nil
	case !(c.Turns >= 1):
		return &Error{Key: "conversation", Problem: "has less than one turn",
			Remedy: "write the mean number of requests of a conversation"}
	case c.System < 0 || c.Open < 0 || c.Block < 0:
		return &Error{Key: "conversation", Problem: "has a negative number", Remedy: "write numbers from 0"}
	}
	return nil
}

// conversations are those of a Load that may continue.
type conversations struct {
	Conversation
	seed  uint64
	count uint64
	open  map[string][]*conversation // by model, the oldest first
}

type conversation struct {
	id     uint64
	tokens int // of the last prompt and output
}

// newConversations returns nil if no request continues another one.
func newConversations(c Conversation, seed uint64) *conversations {
	if c == (Conversation{}) {
		return nil
	}
	if c.Open == 0 {
		c.Open = defaultOpen
	}
	if c.Block == 0 {
		c.Block = defaultBlock
	}
	return &conversations{Conversation: c, seed: seed, open: map[string][]*conversation{}}
}

// extend makes a request continue a conversation, or begin one. A conversation is one client.
func (c *conversations) extend(q *Request, r *rand.Rand) {
	open := c.open[q.Model]
	var one *conversation
	if r.Float64() < 1-1/c.Turns {
		one = longest(open, q.Prompt)
	}
	if one == nil {
		one = &conversation{id: c.count}
		c.count++
		if len(open) == c.Open {
			open = slices.Delete(open, 0, 1)
		}
		c.open[q.Model] = append(open, one)
	}
	q.Client = "conversation-" + strconv.FormatUint(one.id, 10)
	q.PrefixBlock, q.Prefix = c.Block, c.hashes(q.Model, one.id, q.Prompt/c.Block)
	one.tokens = q.Prompt + q.Output
}

// longest returns the longest conversation that is shorter than a prompt, or nil.
func longest(open []*conversation, prompt int) (found *conversation) {
	for _, one := range open {
		if one.tokens < prompt && (found == nil || one.tokens > found.tokens) {
			found = one
		}
	}
	return found
}

// hashes returns the hashes of the first n blocks of a conversation. Blocks of the system prompt are
// those of all conversations of the model.
func (c *conversations) hashes(model string, id uint64, n int) []uint64 {
	name := fnv.New64a()
	name.Write([]byte(model))
	all := make([]uint64, n)
	for i := range all {
		if (i+1)*c.Block <= c.System {
			all[i] = mix(c.seed, name.Sum64(), uint64(i))
		} else {
			all[i] = mix(c.seed, name.Sum64(), uint64(i), id+1)
		}
	}
	return all
}
