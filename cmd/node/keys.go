package main

import (
	"fmt"

	"troupe/cluster/security"
	"troupe/gateway/apikey"
)

type keysCommand struct {
	New  newKeyCommand  `cmd:"" help:"Create an API key for HTTP clients."`
	Nkey newNkeyCommand `cmd:"" help:"Create an nkey for a NATS client or a node."`
}

type newKeyCommand struct {
	Name   string   `required:"" placeholder:"NAME" help:"Owner of the key, shown in logs: anna."`
	Models []string `placeholder:"PATTERN" help:"${keymodels}"`
	Admin  bool     `help:"Also allow loading and unloading adapters, and /metrics, /tree and the details of /ready."`
}

func (newKeyCommand) Help() string {
	return `The key is printed once and stored nowhere. Add the printed line under "keys:" in the file of
"troupe up --api-keys"; a running node accepts the key at once.

Examples:

  troupe keys new --name anna --models 'kjv-*,llama'
  troupe keys new --name ops --admin`
}

// Run prints a new key and its line for the file.
func (c newKeyCommand) Run(to console) error {
	secret, line, err := apikey.Generate(c.Name, c.Models, c.Admin)
	if err != nil {
		return &usageError{err}
	}
	_, err = fmt.Fprintf(to.out, "Key for %s, printed only once:\n\n  %s\n\n"+
		"Add to the file of --api-keys:\n\nkeys:\n%s\n",
		c.Name, secret, line)
	return err
}

type newNkeyCommand struct {
	Out string `required:"" placeholder:"FILE" type:"path" help:"File for the secret seed; it must not exist."`
}

func (newNkeyCommand) Help() string {
	return `Add the printed public key to the file of "troupe up --nats-users", or to a nats-server configuration.

Example:

  troupe keys nkey --out n1.nk`
}

// Run writes a new seed and prints the public key.
func (c newNkeyCommand) Run(to console) error {
	public, err := security.NewNkey(c.Out)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(to.out,
		"Seed: %s\n\nAdd to the file of --nats-users:\n\nauthorization {\n  users = [\n    {nkey: %s}\n  ]\n}\n", c.Out,
		public)
	return err
}
