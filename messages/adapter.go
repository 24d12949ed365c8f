package messages

import (
	"strconv"
	"strings"
)

// Key returns the identity of a registered adapter, "name@revision", or "" for none. Registering it
// again changes the key. Only sequences with the same key share KV blocks.
func (s *AdapterSpec) Key() string {
	if s == nil {
		return ""
	}
	return s.GetName() + "@" + strconv.FormatUint(s.GetRevision(), 10)
}

// DefaultAdapterRank is the default of max_adapter_rank: the highest rank of a deployment's
// adapters.
const DefaultAdapterRank = 64

// AdapterOf returns the name and revision of a key that Key made. The other fields are empty.
func AdapterOf(key string) *AdapterSpec {
	at := strings.LastIndexByte(key, '@')
	if at < 0 {
		return &AdapterSpec{Name: key}
	}
	revision, _ := strconv.ParseUint(key[at+1:], 10, 64) // keys are made by Key
	return &AdapterSpec{Name: key[:at], Revision: revision}
}
