package messages

import (
	"strconv"
	"strings"
)

// Key names one state of an adapter, "name@revision": one that was registered again is another. It is empty for none. KV blocks are
// shared among sequences of one key.
func (s *AdapterSpec) Key() string {
	if s == nil {
		return ""
	}
	return s.GetName() + "@" + strconv.FormatUint(s.GetRevision(), 10)
}

// DefaultAdapterRank is the highest rank of adapters where a deployment does not set
// max_adapter_rank.
const DefaultAdapterRank = 64

// AdapterOf is the inverse of Key, as far as that goes.
func AdapterOf(key string) *AdapterSpec {
	at := strings.LastIndexByte(key, '@')
	if at < 0 {
		return &AdapterSpec{Name: key}
	}
	revision, _ := strconv.ParseUint(key[at+1:], 10, 64) // keys are made by Key
	return &AdapterSpec{Name: key[:at], Revision: revision}
}
