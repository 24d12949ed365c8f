package security_test

import (
	"testing"

	"troupe/cluster/security"
)

func TestWithoutSecrets(t *testing.T) {
	for urls, want := range map[string]string{
		"nats://127.0.0.1:4222":                        "nats://127.0.0.1:4222",
		"nats://anna:wr0ng@a:4222,nats://b:4222":       "nats://anna:xxxxx@a:4222,nats://b:4222",
		"tls://t0ken@a:4222, nats://anna:wr0ng@b:4222": "tls://xxxxx@a:4222,nats://anna:xxxxx@b:4222",
		"a:4222,127.0.0.1:4222":                        "a:4222,127.0.0.1:4222",
		"anna:wr0ng@a:4222":                            "nats://anna:xxxxx@a:4222",
		"nats://anna:wr0ng@a:%":                        "xxxxx",
	} {
		if got := security.WithoutSecrets(urls); got != want {
			t.Errorf("%s: %s, want %s", urls, got, want)
		}
	}
}
