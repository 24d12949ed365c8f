package members

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"troupe/messages"
)

const (
	memberPrefix = "members."
	leasePrefix  = "leases."
)

// entry is a key as it was last seen. Where member and lease are nil, it is deleted.
type entry struct {
	key       string
	revision  uint64 // 0: the bucket has no such key
	member    *messages.Member
	lease     *messages.Lease
	firstSeen time.Time // when this revision was seen first
}

// equal reports whether two revisions of a key say the same.
func (e entry) equal(other entry) bool {
	return proto.Equal(e.member, other.member) && proto.Equal(e.lease, other.lease)
}

// memberID is the id of a record that is a live member, else "".
func (e entry) memberID() string { return e.member.GetId() }

func memberKey(name string) string { return memberPrefix + name }
func leaseKey(role string) string  { return leasePrefix + role }

// decode reads a key's value. One that can not be read counts as deleted.
func decode(key string, revision uint64, value []byte, now time.Time) (entry, error) {
	e := entry{key: key, revision: revision, firstSeen: now}
	var err error
	switch {
	case strings.HasPrefix(key, memberPrefix):
		m := &messages.Member{}
		if err = lenient.Unmarshal(value, m); err == nil && memberKey(m.GetName()) == key {
			e.member = m
			return e, nil
		}
	case strings.HasPrefix(key, leasePrefix):
		l := &messages.Lease{}
		if err = lenient.Unmarshal(value, l); err == nil && leaseKey(l.GetName()) == key {
			e.lease = l
			return e, nil
		}
	}
	return e, fmt.Errorf("key %s, revision %d of bucket %s is not what its name says (%v); delete the key", key, revision, Bucket, err)
}

var (
	lenient = protojson.UnmarshalOptions{DiscardUnknown: true}
	strict  = protojson.MarshalOptions{UseProtoNames: true}
)
