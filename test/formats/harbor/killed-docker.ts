// Opens a container with the program of its argument, says so, and waits to be killed.
import { dockerSandbox } from 'martingale/environments';

const kind = dockerSandbox({ program: process.argv[2] ?? '' });
await kind.create({
  image: {
    name: 'localhost/small',
    folder: '/',
    buildTimeoutMs: 1000,
    cpus: null,
    memoryMb: null,
    storageMb: null,
  },
  workdir: null,
  copies: [],
  env: {},
  hasNetwork: false,
  signal: new AbortController().signal,
});
console.log('open');
setInterval(() => {}, 1000);
