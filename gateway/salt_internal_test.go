package gateway

import (
	"bytes"
	"testing"

	"troupe/core/kv"
	"troupe/gateway/apikey"
)

// TestCallerSalt checks which salt each kind of caller gets: keys that of their tenant, accounts of NATS one of
// their own, which no key has unless it names that tenant.
func TestCallerSalt(t *testing.T) {
	secret := bytes.Repeat([]byte{7}, kv.SecretBytes)
	g := &Gateway{cfg: Config{Salt: func(tenant, cacheSalt string) ([]byte, error) {
		return kv.Salt(secret, tenant, cacheSalt)
	}}}
	for tenant, callers := range map[string][]caller{
		"": {{}, {key: &apikey.Key{Name: "sue", Tenant: kv.SharedTenant}}},
		"ann": {
			{key: &apikey.Key{Name: "ann", Tenant: "ann"}}, {key: &apikey.Key{Name: "new", Tenant: "ann"}, account: "guests"},
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
				t.Errorf("%+v has the salt %x, want that of tenant %q; %v", c, got, tenant, err)
			}
		}
	}
}
