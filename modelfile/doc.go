// Package modelfile opens the files of models and adapters. It does not trust their folders: a file
// there may be a FIFO, a device, a link to a secret, or have any size.
//
// Every file below such a folder is opened by this package. It opens only regular files, without
// blocking, and checks the opened file, which cannot be swapped afterwards. With Roots, the opened file
// must be below one of them.
package modelfile
