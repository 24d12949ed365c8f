package kv

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

func testSecret(b byte) []byte { return bytes.Repeat([]byte{b}, SecretBytes) }

// TestSharedRootsAreUnchanged checks that roots without a salt equal those of versions without
// salts, so that KV files written then remain useful.
func TestSharedRootsAreUnchanged(t *testing.T) {
	for _, tenant := range []string{"", SharedTenant} {
		salt, err := Salt(nil, tenant, "")
		if err != nil || salt != nil {
			t.Errorf("tenant %q: salt %x, %v", tenant, salt, err)
		}
	}
	for adapter, want := range map[string]string{"": "758dee1326006263", "psalms@7": "0d0e21b46ac98706"} {
		root := Root("kjv", adapter, nil)
		if got := hex.EncodeToString(root[:8]); got != want || Root("kjv", adapter, []byte{}) != root {
			t.Errorf("the root of kjv with adapter %q begins %s, want %s", adapter, got, want)
		}
	}
}

func TestSaltNeedsTheSecret(t *testing.T) {
	for _, secret := range [][]byte{nil, {}, testSecret(1)[1:]} {
		for _, of := range [][2]string{{"alice", ""}, {"", "mine"}, {SharedTenant, "mine"}, {"alice", "mine"}} {
			if salt, err := Salt(secret, of[0], of[1]); !errors.Is(err, ErrNoSecret) || salt != nil {
				t.Errorf("%q with a secret of %d bytes: salt %x, %v", of, len(secret), salt, err)
			}
		}
	}
}

// TestCacheSaltCannotImitateTenant checks that no cache salt can stand in for a part of another
// tenant's name.
func TestCacheSaltCannotImitateTenant(t *testing.T) {
	seen := make(map[string][2]string)
	for _, of := range [][2]string{
		{"ab", ""}, {"a", "b"}, {"", "ab"}, {"a", ""},
		{"a\x00b", ""}, {"a", "\x00b"}, {"a", "\x00"}, {"a\x00", ""}, {"", "a\x00b"},
		{"", "\x01ab"}, {"", "\x02ab"}, {"a", "\x01b"}, {"nats:a", ""}, {"nats:", "a"},
	} {
		salt, err := Salt(testSecret(1), of[0], of[1])
		if other, ok := seen[string(salt)]; ok || err != nil {
			t.Errorf("%q and %q have the same salt; %v", of, other, err)
		}
		seen[string(salt)] = of
	}
}

// TestSaltsDiffer checks that salts and roots are equal only if tenant, cache salt and secret are.
func TestSaltsDiffer(t *testing.T) {
	type of struct {
		secret            byte
		tenant, cacheSalt string
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune{0, 1, 2, 'a'}), 0, 4, -1)
		draw := func(name string) of {
			o := of{
				rapid.ByteRange(1, 2).Draw(t, name+" secret"), text.Draw(t, name+" tenant"),
				text.Draw(t, name+" cache salt"),
			}
			if o.tenant == "" && o.cacheSalt == "" {
				o.secret = 0 // the shared namespace does not depend on it
			}
			return o
		}
		a, b := draw("a"), draw("b")
		saltA, errA := Salt(testSecret(a.secret), a.tenant, a.cacheSalt)
		saltB, errB := Salt(testSecret(b.secret), b.tenant, b.cacheSalt)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if same := bytes.Equal(saltA, saltB); same != (a == b) {
			t.Fatalf("%+v and %+v have the same salt: %t", a, b, same)
		}
		if same := Root("m", "x", saltA) == Root("m", "x", saltB); same != (a == b) {
			t.Fatalf("%+v and %+v have the same root: %t", a, b, same)
		}
	})
}
