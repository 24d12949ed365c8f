package main

import (
	"fmt"

	"troupe/cluster/security"
	"troupe/gateway/apikey"
)

type keysCommand struct {
	New  newKeyCommand  `cmd:"" help:"Make an API key for a user of the models."`
	Nkey newNkeyCommand `cmd:"" help:"Make an nkey for a client of NATS."`
}

type newKeyCommand struct {
	Name   string   `required:"" placeholder:"NAME" help:"Whose it is, for the log."`
	Models []string `placeholder:"PATTERN,..." help:"Models that it may use, like kjv-* (default: all, with all adapters). * does not match a colon: kjv-*:* are the adapters of these, psalms is the adapter of that name."`
	Admin  bool     `help:"It may also load and unload adapters, and read /metrics, /tree and the details of /ready."`
}

func (newKeyCommand) Help() string {
	return `The key is shown once and kept nowhere. The line goes under "keys:" in the file that "troupe up --api-keys" names; a running node takes it at once.

Example:

  troupe keys new --name anna --models 'kjv-*,llama'`
}

// Run prints a new key and its line for the file.
func (c newKeyCommand) Run(to console) error {
	secret, line, err := apikey.Generate(c.Name, c.Models, c.Admin)
	if err != nil {
		return &usageError{err}
	}
	_, err = fmt.Fprintf(to.out, "Key for %s, shown this once:\n\n  %s\n\nIn the file of --api-keys:\n\nkeys:\n%s\n", c.Name, secret, line)
	return err
}

type newNkeyCommand struct {
	Out string `required:"" placeholder:"FILE" type:"path" help:"Where to write the seed, which is secret."`
}

func (newNkeyCommand) Help() string {
	return `The public key goes into the file that "troupe up --nats-users" names, or into the configuration of any nats-server.

Example:

  troupe keys nkey --out n1.nk`
}

// Run writes a new seed and prints the public key.
func (c newNkeyCommand) Run(to console) error {
	public, err := security.NewNkey(c.Out)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(to.out, "Seed: %s\n\nIn the file of --nats-users:\n\nauthorization {\n  users = [\n    {nkey: %s}\n  ]\n}\n", c.Out, public)
	return err
}
