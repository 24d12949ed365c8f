package kv

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
)

const (
	// SharedTenant names the tenant whose blocks have no salt of their own: clients without a tenant belong to it too.
	SharedTenant = "shared"
	// SecretBytes is the length of the secret that salts are made with.
	SecretBytes = 32
)

// ErrNoSecret reports that a salt is needed and the secret is not known.
var ErrNoSecret = errors.New("the cluster secret is not known, and without it the prefix caches of tenants " +
	"cannot be kept apart")

// Salt returns the salt of a tenant's blocks: an HMAC of the tenant and of the cache salt that the client
// sent, which may be empty. Nobody without the secret can compute it, and no client can choose a cache salt
// that leads to the blocks of another tenant. It is nil in the space that SharedTenant and clients without a
// tenant share, unless they send a cache salt. Every other salt needs the secret: without one, Salt returns
// ErrNoSecret.
func Salt(secret []byte, tenant, cacheSalt string) ([]byte, error) {
	if tenant == SharedTenant {
		tenant = ""
	}
	if tenant == "" && cacheSalt == "" {
		return nil, nil
	}
	if len(secret) != SecretBytes {
		return nil, ErrNoSecret
	}
	mac := hmac.New(sha256.New, secret)
	// The length makes the end of the tenant unambiguous: the client chooses what follows it.
	mac.Write(binary.AppendUvarint(nil, uint64(len(tenant))))
	mac.Write([]byte(tenant))
	mac.Write([]byte(cacheSalt))
	return mac.Sum(nil), nil
}
