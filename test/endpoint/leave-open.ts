// Opens an endpoint, calls it over a kept-alive connection, and ends without closing anything.
import { get } from 'node:http';
import { connect } from 'node:net';
import { ModelHandle } from '../../src/model/index.ts';

const create = () => Promise.reject(new Error('not called'));
const { baseUrl, apiKey } = await new ModelHandle({ name: 'desk', completions: { create } }).endpoint();
const { port } = new URL(baseUrl);
connect({ port: Number(port), host: '127.0.0.1' }).unref();
get(`${baseUrl}/models`, { headers: { authorization: `Bearer ${apiKey}` } }, (response) => {
  console.log(response.statusCode);
  response.resume();
});
