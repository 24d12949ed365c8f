package gateway

import (
	"bytes"
	"testing"

	"troupe/core/kv"
	"troupe/gateway/apikey"
)

// TestCallerSalt checks the salt of each kind of caller. Keys have their tenant's salt. A NATS
// account has its own salt, which no key has unless its tenant names the account.
func TestCallerSalt(t *testing.T) {
	secret := bytes.Repeat([]byte{7}, kv.SecretBytes)
	g := &Gateway{cfg: Config{Salt: func(tenant, cacheSalt string) ([]byte, error) {
		return kv.Salt(secret, tenant, cacheSalt)
	}}}
	for tenant, callers := range map[string][]caller{
		"": {{}, {key: &apikey.Key{Name: "sue", Tenant: kv.SharedTenant}}},
		"ann": {
			{key: &apikey.Key{Name: "ann", Tenant: "ann"}},
			{key: &apikey.Key{Name: "new", Tenant: "ann"}, account: "guests"},
		},
		"guests":      {{key: &apikey.Key{Name: "guests", Tenant: "guests"}}},
		"nats:guests": {{account: "guests"}, {key: &apikey.Key{Name: "kim", Tenant: "nats:guests"}}},
		"nats:shared": {{account: "shared"}},
	} {
		want, err := kv.Salt(secret, tenant, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range callers {
			if got, err := g.salt(c, ""); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%+v: salt %x, want that of tenant %q; %v", c, got, tenant, err)
			}
		}
	}
}
