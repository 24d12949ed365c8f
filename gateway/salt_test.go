package gateway_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"troupe/core/kv"
	"troupe/gateway"
)

// saltedKeys are two keys with a tenant each, and one key of the shared tenant.
const saltedKeys = "- {name: ann, key: sk-ann-0123456789}\n- {name: kim, key: sk-kim-0123456789, tenant: acme}\n" +
	"- {name: sue, key: sk-sue-0123456789, tenant: shared}\n"

// TestSequenceSalt checks that all sequences of a request carry the salt of the caller's tenant and
// the request's cache_salt.
func TestSequenceSalt(t *testing.T) {
	secret := bytes.Repeat([]byte{7}, kv.SecretBytes)
	for _, tc := range []struct{ key, fields, tenant, cacheSalt string }{
		{"", "", "", ""},
		{"", `,"cache_salt":"x"`, "", "x"},
		{"sk-ann-0123456789", "", "ann", ""},
		{"sk-ann-0123456789", `,"cache_salt":null`, "ann", ""},
		{"sk-ann-0123456789", `,"cache_salt":"x"`, "ann", "x"},
		{"sk-kim-0123456789", "", "acme", ""},
		{"sk-sue-0123456789", "", "", ""},
		{"sk-sue-0123456789", `,"cache_salt":"x"`, "", "x"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newTestGateway(t, generate("God did.", finishStop), func(cfg *gateway.Config) {
				if tc.key != "" {
					cfg.Keys = openKeys(t, saltedKeys)
				}
				cfg.Salt = func(tenant, cacheSalt string) ([]byte, error) { return kv.Salt(secret, tenant, cacheSalt) }
			})
			want, err := kv.Salt(secret, tc.tenant, tc.cacheSalt)
			if err != nil {
				t.Fatal(err)
			}
			for path, body := range map[string]string{
				"/v1/completions":      `{"model":"kjv","prompt":["a","b"],"n":2,"seed":0%s}`,
				"/v1/chat/completions": `{"model":"kjv","messages":[{"role":"user","content":"a"}],"seed":0%s}`,
			} {
				rec := w.post(path, fmt.Sprintf(body, tc.fields), "Authorization", "Bearer "+tc.key)
				if rec.Code != http.StatusOK {
					t.Fatalf("%+v: %d %s", tc, rec.Code, rec.Body)
				}
			}
			opened, _ := w.sessions()
			if len(opened) != 5 {
				t.Fatalf("%d sequences, not 5", len(opened))
			}
			for _, call := range opened {
				if got := call.Sequence.GetCacheSalt(); !bytes.Equal(got, want) {
					t.Errorf("%+v: sequence has salt %x, want %x", tc, got, want)
				}
			}
		})
	}
}

// TestMissingSecretRefusesSaltedRequests checks that requests that need a salt are refused while
// the cluster secret is unknown, and that those of the shared tenant are served.
func TestMissingSecretRefusesSaltedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestGateway(t, generate("God did.", finishStop), func(cfg *gateway.Config) {
			cfg.Salt, cfg.Keys = nil, openKeys(t, saltedKeys)
		})
		for _, tc := range []struct {
			key, fields string
			want        int
		}{
			{"sk-ann-0123456789", "", http.StatusServiceUnavailable},
			{"sk-sue-0123456789", "", http.StatusOK},
			{"sk-sue-0123456789", `,"cache_salt":"x"`, http.StatusServiceUnavailable},
		} {
			body := `{"model":"kjv","prompt":"a","seed":0` + tc.fields + "}"
			rec := w.post("/v1/completions", body, "Authorization", "Bearer "+tc.key)
			why := rec.Header().Get("Retry-After") == "1" && strings.Contains(rec.Body.String(), "cluster secret")
			if rec.Code != tc.want || rec.Code != http.StatusOK && !why {
				t.Errorf("%+v: %d %v %s", tc, rec.Code, rec.Header(), rec.Body)
			}
		}
		if opened, _ := w.sessions(); len(opened) != 1 {
			t.Errorf("%d sequences were opened, want 1", len(opened))
		}
	})
}
