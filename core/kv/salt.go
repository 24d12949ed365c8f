package kv

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
)

const (
	// SharedTenant names the tenant whose blocks have no salt. Clients without a tenant belong to
	// it.
	SharedTenant = "shared"
	// SecretBytes is the length of the cluster secret.
	SecretBytes = 32
)

// ErrNoSecret reports that a salt needs the cluster secret, which is not known.
var ErrNoSecret = errors.New("cluster secret unknown; it is needed to separate the prefix caches of tenants")

// Salt returns the salt of a tenant's blocks: an HMAC of the tenant and of the cache salt sent by
// the client, which may be empty. It cannot be computed without the secret, and no client can
// choose a cache salt that leads to the blocks of another tenant. It is nil for SharedTenant and
// for clients without a tenant, unless they send a cache salt. Every other salt needs the secret;
// without it, Salt returns ErrNoSecret.
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
	// The length marks the end of the tenant's name, since the client chooses what follows.
	mac.Write(binary.AppendUvarint(nil, uint64(len(tenant))))
	mac.Write([]byte(tenant))
	mac.Write([]byte(cacheSalt))
	return mac.Sum(nil), nil
}
