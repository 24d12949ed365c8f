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

// entry is a key as last seen. If member and lease are nil, the key is deleted.
type entry struct {
	key       string
	revision  uint64 // 0 if the bucket has no such key
	member    *messages.Member
	lease     *messages.Lease
	firstSeen time.Time // time at which this revision was first seen

	last    *messages.Member // of a deleted member: its last record; nil: not known
	deleted time.Time        // likewise: when it was deleted
}

// equal reports whether two revisions of a key have the same content.
func (e entry) equal(other entry) bool {
	return proto.Equal(e.member, other.member) && proto.Equal(e.lease, other.lease)
}

// memberID returns the ID of a live member's record, or "" for any other entry.
func (e entry) memberID() string { return e.member.GetId() }

func memberKey(name string) string { return memberPrefix + name }
func leaseKey(role string) string  { return leasePrefix + role }

// decode decodes a key's value. A value that cannot be decoded counts as deleted.
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
	return e, fmt.Errorf("key %s, revision %d of bucket %s has an invalid value (%v); delete the key",
		key, revision, Bucket, err)
}

var (
	lenient = protojson.UnmarshalOptions{DiscardUnknown: true}
	strict  = protojson.MarshalOptions{UseProtoNames: true}
)
