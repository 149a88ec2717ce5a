import type { AddressInfo } from 'node:net';
import { serve } from '@hono/node-server';
import { createClient } from '../client/index.ts';
import { Changes } from './changes.ts';
import { pageFiles } from './page-files.ts';
import { RunViews } from './run-views.ts';
import { ServiceViews } from './service-views.ts';
import { createViewApp, newSecret } from './view-app.ts';

export interface ViewOptions {
  /** Folders with runs, at any depth up to four. */
  folders: readonly string[];
  /** 0 for a free one. */
  port: number;
  /** A service to show too. */
  service?: { baseUrl: string; apiKey: string } | undefined;
}

export interface RunningView {
  /** Address of the page, with its secret. */
  url: string;
  close: () => Promise<void>;
}

/** Starts the page on this machine's own address. @throws the system's error for a port in use. */
export async function startView({ folders, port, service: shown }: ViewOptions): Promise<RunningView> {
  const service = shown ? new ServiceViews(createClient(shown), shown.baseUrl) : null;
  const secret = newSecret();
  const app = createViewApp({
    views: new RunViews(folders),
    changes: new Changes(folders),
    service,
    page: await pageFiles(),
    secret,
  });
  const server = await new Promise<ReturnType<typeof serve>>((resolve, reject) => {
    const starting = serve({ fetch: app.fetch, hostname: '127.0.0.1', port }, () => resolve(starting));
    starting.once('error', reject);
  });
  const address = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${address.port}/?key=${secret}`,
    close: async () => {
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
        if ('closeAllConnections' in server) server.closeAllConnections();
      });
      await service?.close();
    },
  };
}
