import { createClient } from '../client/index.ts';
import { listen } from '../util/listen.ts';
import { newKey } from '../util/server-access.ts';
import { Changes } from './changes.ts';
import { pageFiles } from './page-files.ts';
import { RunViews } from './run-views.ts';
import { ServiceViews } from './service-views.ts';
import { createViewApp, OneTimeCodes } from './view-app.ts';

interface ViewOptions {
  /** Folders with runs, at any depth up to four. */
  folders: readonly string[];
  /** 0 for a free one. */
  port: number;
  /** A service to show too. */
  service?: { baseUrl: string; apiKey: string } | undefined;
}

export interface RunningView {
  /** Address of the page, with its secret: for the terminal of its user. */
  url: string;
  /** An address that opens the page once, within a minute: for the arguments of a program, which everybody can read. */
  openingUrl: () => string;
  close: () => Promise<void>;
}

/** Starts the page on this machine's own address. @throws the system's error for a port in use. */
export async function startView({ folders, port, service: shown }: ViewOptions): Promise<RunningView> {
  const service = shown ? new ServiceViews(createClient(shown), shown.baseUrl) : null;
  const secret = newKey();
  const codes = new OneTimeCodes();
  const app = createViewApp({
    views: new RunViews(folders),
    changes: new Changes(folders),
    service,
    page: await pageFiles(),
    secret,
    codes,
  });
  const listening = await listen(app, { host: '127.0.0.1', port });
  return {
    url: `${listening.url}/?key=${secret}`,
    openingUrl: () => `${listening.url}/open?code=${codes.make()}`,
    close: async () => {
      await listening.close();
      await service?.close();
    },
  };
}
