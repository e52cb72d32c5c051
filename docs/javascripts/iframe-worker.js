// A site that is opened from files: browsers refuse a Worker whose script is a file, and the search of the theme is one. Here a hidden
// frame runs the script instead, with the same messages.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.documentElement.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = (...scripts) => Promise.all(scripts.map((script) => this.load(script)));
      this.ready = this.load(url);
    }
    load(url) {
      return new Promise((done, failed) => {
        const script = this.frame.contentDocument.createElement("script");
        Object.assign(script, { src: url, onload: done, onerror: failed });
        this.frame.contentDocument.head.append(script);
      });
    }
    postMessage(data) {
      this.ready.then(() => {
        const inside = this.frame.contentWindow;
        inside.dispatchEvent(new inside.MessageEvent("message", { data }));
      });
    }
    terminate() {
      this.frame.remove();
    }
  };
}
