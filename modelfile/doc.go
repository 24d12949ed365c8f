// Package modelfile opens the files of models and adapters. Their folders are not trusted: a file there may be a FIFO, a
// device, a link to a secret, or have any size.
//
// Every file below such a folder is opened here, and nowhere else. Only regular files are opened, without blocking, and the
// check is made on the opened file, so that nobody can exchange it afterwards. Where Roots are given, the opened file must
// be below one of them.
package modelfile
