package main

import (
	"fmt"
	"strings"
	"testing"
)

func TestParseNetworks(t *testing.T) {
	for text, want := range map[string]string{
		"": "[]", "10.0.0.0/8": "[10.0.0.0/8]",
		"10.1.2.3/8, 192.0.2.1,fd00::/8,::1": "[10.0.0.0/8 192.0.2.1/32 fd00::/8 ::1/128]",
	} {
		if got, err := parseNetworks(text); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"proxy.example", "10.0.0.0/33", "10.0.0.0/8,"} {
		if _, err := parseNetworks(text); err == nil || !strings.Contains(err.Error(), "write it like") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
