package natsd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats-server/v2/conf"
	"github.com/nats-io/nats-server/v2/server"
)

// userSections are the sections of a nats-server configuration that may be in a users file.
var userSections = []string{
	"authorization",
	"accounts",
	"no_auth_user",
	"system_account",
	"operator",
	"resolver",
	"resolver_preload",
}

// LoadUsers reads the users and their permissions from a nats-server configuration file with
// authorization or accounts. It returns server options with nothing else set. Without a file, every
// client may do everything.
func LoadUsers(file string) (*server.Options, error) {
	if file == "" {
		return &server.Options{}, nil
	}
	parts, err := conf.ParseFileWithChecks(file)
	if err != nil {
		return nil, fmt.Errorf("NATS users: %w", redact(file, err))
	}
	for part, value := range parts {
		variable, ok := value.(interface{ IsUsedVariable() bool })
		if !slices.Contains(userSections, strings.ToLower(part)) && (!ok || !variable.IsUsedVariable()) {
			return nil, fmt.Errorf("NATS users: %s has %s, which is not about users; it can have only %s",
				file, part, strings.Join(userSections, ", "))
		}
	}
	opts, err := server.ProcessConfigFile(file)
	if err != nil {
		return nil, fmt.Errorf("NATS users: %w", redact(file, err))
	}
	if len(opts.Users)+len(opts.Nkeys)+len(opts.TrustedOperators) == 0 && opts.Username == "" &&
		opts.Authorization == "" {
		return nil, fmt.Errorf("NATS users: %s has none, so every client could connect; list users under authorization",
			file)
	}
	return opts, nil
}
